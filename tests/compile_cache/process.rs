//! Runs [`crate::program`] in separate processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable that passes the arguments of the program to a process.
const PROGRAM: &str = "MS_TEST_PROGRAM";

/// The separator between arguments.
const SEPARATOR: &str = "|";

/// Returns whether the device of the programs compiles kernels to machine code. Simulated devices interpret them.
pub fn compiles_kernels() -> bool {
    cfg!(target_arch = "x86_64") && ms::context().device_target == ms::tensor::Device::CPU.kind()
}

/// Returns whether programs execute machine code in place.
pub fn executes_code() -> bool {
    cfg!(target_os = "linux") && compiles_kernels()
}

/// The outcome of a process.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The dtype and the values of the result.
    pub result: String,
    pub hits: u64,
    pub misses: u64,
    /// The time from the start of the call to its result.
    pub micros: u64,
    /// The numbers of executable mappings: of entries, and anonymous ones.
    pub code: [u64; 2],
    /// The stages of the last function that was compiled or loaded.
    pub stages: String,
    pub stdout: String,
    pub stderr: String,
}

/// A temporary directory for one test, removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ms-compile-cache-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("no other test has this name");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the cache.
    pub fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the command that runs a program with a cache at `cache`.
pub fn command(program: &[&str], cache: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test runs"));
    command.args(["--exact", "program_of_a_process", "--nocapture", "--test-threads=1"]);
    let cache_settings = ["MS_CACHE_VERIFY", "MS_COMPILER_CACHE_MAX_SIZE", "MS_COMPILER_CACHE_KEY"];
    for name in ["MS_JIT", "MS_CPU_ISA", "MS_NUM_THREADS"].iter().chain(&cache_settings) {
        command.env_remove(name);
    }
    command.env(PROGRAM, program.join(SEPARATOR)).env("MS_COMPILER_CACHE_ENABLE", "1");
    command.env("MS_COMPILER_CACHE_PATH", cache).stdin(Stdio::null());
    command
}

/// Makes `outer` run the command `inner`, with its environment.
pub fn wrap(outer: &mut Command, inner: &Command) {
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
}

/// Returns the program that this process was started for.
pub fn program() -> Option<Vec<String>> {
    Some(std::env::var(PROGRAM).ok()?.split(SEPARATOR).map(str::to_owned).collect())
}

/// Runs a command to its end and parses its output.
pub fn outcome(mut command: Command) -> Outcome {
    let output = command.output().expect("the test can be started again");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{:?}\n{stdout}\n{stderr}", output.status);
    parse(stdout, stderr)
}

/// Parses the output of a process.
pub fn parse(stdout: String, stderr: String) -> Outcome {
    let line = |name: &str| {
        let found = stdout.lines().find_map(|line| line.split_once(name).map(|it| it.1.to_owned()));
        found.unwrap_or_else(|| panic!("`{name}` is not in\n{stdout}\n{stderr}"))
    };
    let number = |name: &str| {
        let rest = line(name);
        rest.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number follows the name")
    };
    let (hits, misses, micros) = (number("hits "), number("misses "), number("us "));
    let code = [number("mapped "), number("copied ")];
    let (result, stages) = (line("result "), line("stages "));
    Outcome { result, hits, misses, micros, code, stages, stdout, stderr }
}

/// Runs a program with a cache.
pub fn run(program: &[&str], cache: &Path) -> Outcome {
    outcome(command(program, cache))
}

/// Runs a program without a cache.
pub fn run_without(program: &[&str]) -> Outcome {
    let mut command = command(program, Path::new("/nowhere"));
    command.env("MS_COMPILER_CACHE_ENABLE", "0");
    outcome(command)
}
