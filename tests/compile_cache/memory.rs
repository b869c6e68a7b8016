//! Tests code where the system does not permit to execute files, or memory of the process.

use crate::process::{Outcome, Scratch, command, executes_code, parse, wrap};
use std::process::Command;

/// Programs and their results: one with a small entry, and one with a large entry. They execute no single op, since its
/// code would count too.
const SMALL: (&[&str], &str) = (&["constant", "3"], "f32 [3.0, 6.0, 9.0]");
const LARGE: (&[&str], &str) = (&["large"], "f32 [1.0, 2.0, 3.0]");

/// The environment variable for a program that gives up the right to make memory executable.
pub const REFUSE: &str = "MS_TEST_REFUSE_EXECUTABLE_MEMORY";

/// Gives up the right to make memory executable. Returns `false` if the system has no such setting.
pub fn refuse_executable_memory() -> bool {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn prctl(option: i32, ...) -> i32;
        }
        const SET_MDWE: i32 = 65;
        const REFUSE_EXEC_GAIN: usize = 1;
        // SAFETY: `prctl` takes these integers by value and accesses no memory. The option only restricts later calls
        // of `mmap` and `mprotect`.
        unsafe { prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0usize, 0usize, 0usize) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Returns the numbers of executable mappings of this process: of entries, and anonymous.
pub fn code() -> [usize; 2] {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let executable = maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|it| it.contains('x')));
    executable.fold([0, 0], |[mapped, copied], line| match line.split_whitespace().nth(5) {
        Some(file) if file.contains(".entry") => [mapped + 1, copied],
        None => [mapped, copied + 1],
        Some(_) => [mapped, copied],
    })
}

/// Runs the program twice. With `options`, it runs in a namespace where the cache is on a disk that is mounted with
/// these options. Returns `None`, with a message, if the system does not permit it.
fn twice(program: &[&str], options: Option<&str>, refuse: bool) -> Option<[Outcome; 2]> {
    let scratch = Scratch::new();
    let cache = scratch.cache();
    std::fs::create_dir(&cache).expect("a writable directory");
    let inner = command(program, &cache);
    let mut outer = Command::new(if options.is_some() { "unshare" } else { "sh" });
    if let Some(options) = options {
        let mount = "mount -t tmpfs -o mode=700,\"$OPTIONS\" tmpfs \"$MS_COMPILER_CACHE_PATH\" || exit 77";
        outer.args(["--user", "--map-root-user", "--mount", "sh", "-c"]).env("OPTIONS", options);
        outer.arg(format!("{mount}; \"$0\" \"$@\" && echo second && exec \"$0\" \"$@\""));
    } else {
        outer.args(["-c", "\"$0\" \"$@\" && echo second && exec \"$0\" \"$@\""]);
    }
    wrap(&mut outer, &inner);
    if refuse {
        outer.env(REFUSE, "1");
    }
    let Ok(output) = outer.output() else {
        eprintln!("skipped: there is no command `unshare` here");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(77) || errors.starts_with("unshare:") {
        eprintln!("skipped: this system mounts nothing for us: {errors}");
        return None;
    }
    if text.contains("executable memory cannot be refused") {
        eprintln!("skipped: this system does not let a process give up executable memory");
        return None;
    }
    assert!(output.status.success(), "{text}\n{errors}");
    let (first, second) = text.split_once("\nsecond\n").expect("both ran");
    Some([first, second].map(|it| parse(it.to_owned(), errors.clone())))
}

/// Checks that the first process misses and the second one hits, and that both return the right answer without a
/// warning. For each process, `want` is whether it maps code from the entry, and whether it has copied code.
#[track_caller]
fn check((program, result): (&[&str], &str), options: Option<&str>, refuse: bool, want: [[bool; 2]; 2]) {
    let Some(outcomes) = twice(program, options, refuse) else { return };
    for (at, (outcome, want)) in outcomes.iter().zip(want).enumerate() {
        let counts = (outcome.hits, outcome.misses);
        assert_eq!((&*outcome.result, counts), (result, (at as u64, 1 - at as u64)), "{outcome:?}");
        assert!(!outcome.stderr.contains("warning"), "{outcome:?}");
        if executes_code() {
            assert_eq!(outcome.code.map(|it| it > 0), want, "process {at}: {outcome:?}");
        }
    }
}

#[test]
fn code_of_large_entries_is_executed_in_place() {
    check(LARGE, None, false, [[false, true], [true, false]]);
    check(LARGE, Some("exec"), false, [[false, true], [true, false]]);
    check(SMALL, None, false, [[false, true], [false, true]]);
}

#[test]
fn code_on_a_noexec_disk_is_copied() {
    for program in [SMALL, LARGE] {
        check(program, Some("noexec"), false, [[false, true], [false, true]]);
    }
}

/// The interpreter runs kernels that cannot be executed. The next process executes code from a file.
#[test]
fn without_executable_memory_kernels_are_interpreted() {
    for program in [SMALL, LARGE] {
        check(program, None, true, [[false, false], [true, false]]);
        check(program, Some("noexec"), true, [[false, false], [false, false]]);
    }
}
