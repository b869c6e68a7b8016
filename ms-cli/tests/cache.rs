//! Tests `ms cache` on caches that processes have filled.

use ms::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Passes the name of the program to a process that is started for it.
const PROGRAM: &str = "MS_CLI_TEST_PROGRAM";

#[jit]
fn doubled(x: &Tensor) -> Tensor {
    x * 2
}

#[jit(pure)]
fn tripled(x: &Tensor) -> Tensor {
    x * 3
}

/// The body of the processes that [`run`] starts. Does nothing in an ordinary run.
#[test]
fn program() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    let x = tensor![1.0, 2.0, 3.0];
    let result = match &*program {
        "floats" => doubled(&x),
        "integers" => doubled(&x.cast(DType::I32)),
        "pure" => tripled(&x),
        other => panic!("no program is called {other}"),
    };
    println!("{result}, {} missed", ms::cache_use().misses);
}

/// Runs a program in a new process. Its output must contain `wanted`.
fn run(program: &str, cache: &Path, wanted: &str) {
    run_on(None, program, cache, wanted);
}

/// Runs a program like [`run`], with code for another instruction set.
fn run_on(isa: Option<&str>, program: &str, cache: &Path, wanted: &str) {
    let mut command = Command::new(std::env::current_exe().expect("the test runs"));
    command.args(["--exact", "program", "--nocapture"]).env(PROGRAM, program);
    command.env("MS_COMPILER_CACHE_ENABLE", "1").env("MS_COMPILER_CACHE_PATH", cache).env_remove("MS_CPU_ISA");
    command.envs(isa.map(|it| ("MS_CPU_ISA", it)));
    let output = command.output().expect("the test can be started again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains(wanted), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// A temporary directory for one test, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ms-cli-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("no other test has this name");
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ms(cache: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ms"));
    command.arg("cache").args(arguments).env("MS_COMPILER_CACHE_PATH", cache);
    command.output().expect("the command was built for this test")
}

/// Runs a command that must succeed. Its output must contain each of `wanted`.
fn check(cache: &Path, arguments: &[&str], wanted: &[&str]) -> String {
    let output = ms(cache, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}{text}", String::from_utf8_lossy(&output.stderr));
    for want in wanted {
        assert!(text.contains(want), "{arguments:?}: `{want}` is not in\n{text}");
    }
    text
}

fn check_refused(cache: &Path, arguments: &[&str], wanted: &str) {
    let output = ms(cache, arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains(wanted), "{arguments:?}: {text}");
}

#[test]
fn a_cache_is_inspected_and_maintained() {
    let scratch = Scratch::new();
    let cache = scratch.join("cache");
    let place = cache.to_str().expect("a path in the directory of temporary files");
    check(&cache, &["path"], &[place]);
    check_refused(&cache, &["stat"], "MS150");
    assert!(!cache.exists(), "inspection creates nothing");

    run("floats", &cache, "1 missed");
    run("floats", &cache, "0 missed");
    check(&cache, &["explain", "doubled"], &["doubled", "f32[3]", "only entry"]);
    run("integers", &cache, "[2 4 6]");
    run("pure", &cache, "[3. 6. 9.]");
    check(&cache, &["stat"], &["entries  4", "ignored  0", "hits     1", "misses   3", "saved"]);
    check(&cache, &["ls"], &["doubled", "f32[3]", "i32[3]", "tripled (pure)"]);
    check(&cache, &["explain", "doubled"], &["signature: f32[3] -> i32[3]", "  graph"]);
    check_refused(&cache, &["explain", "nobody"], "no entry of `nobody`");
    check(&cache, &["verify"], &["4 entries whole, 0 ignored"]);
    check(&cache, &["gc"], &["removed 0 entries"]);

    let file = scratch.join("warm cache");
    let file = file.to_str().expect("a path in the directory of temporary files");
    check(&cache, &["export", file], &["wrote 4 entries"]);
    let other = scratch.join("another machine");
    check(&other, &["import", file], &["added 4 entries, skipped 0"]);
    // Code for another processor is never executed. The function is compiled for this processor, and stored as another
    // entry.
    run_on(Some("interp"), "floats", &other, "1 missed");
    check(&other, &["stat"], &["entries  5"]);
    run("floats", &other, "0 missed");

    check(&cache, &["clear"], &["removed 4 entries"]);
    check(&cache, &["stat", "--path", other.to_str().expect("as above")], &["entries  5"]);
    check(&cache, &["stat"], &["entries  0"]);
    check_refused(&other, &["import", "/dev/null"], "not a cache that was exported");
}

#[test]
fn damage_is_named() {
    let scratch = Scratch::new();
    let cache = scratch.join("cache");
    run("floats", &cache, "1 missed");
    let files = std::fs::read_dir(&cache).expect("the cache was made").flatten().map(|it| it.path());
    let file = files.into_iter().find(|it| it.extension().is_some_and(|it| it == "entry")).expect("an entry");
    let mut bytes = std::fs::read(&file).expect("the entry just written");
    *bytes.last_mut().expect("an entry is not empty") ^= 1;
    std::fs::remove_file(&file).and_then(|()| std::fs::write(&file, bytes)).expect("a writable directory");
    check_refused(&cache, &["verify"], "are invalid");
}
