//! Tests caches that are damaged, full, removed or shared by many processes.
//!
//! No fault causes a wrong answer, a crash or a hang, but at most a warning and a compilation.

use crate::process::{Outcome, Scratch, command, executes_code, outcome, run, wrap};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const RESULT: &str = "f32 [2.0, 2.0, 2.0]";

fn warnings(outcome: &Outcome) -> usize {
    outcome.stderr.matches("warning[MS150]").count()
}

/// Returns the files of a cache that are entries.
fn entries(cache: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(cache).expect("the cache was made").flatten().map(|it| it.path());
    files.filter(|it| it.extension().is_some_and(|it| it == "entry")).collect()
}

/// A path that is not a usable directory costs one warning, and the answer is right.
#[test]
fn unusable_paths_cost_a_warning() {
    let scratch = Scratch::new();
    let file = scratch.path().join("a file");
    std::fs::write(&file, "content").expect("a writable directory");
    let others = scratch.path().join("others may write");
    std::fs::create_dir(&others).expect("a writable directory");
    std::fs::set_permissions(&others, PermissionsExt::from_mode(0o777)).expect("it is ours");
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&others, &link).expect("a writable directory");
    for place in [file.clone(), file.join("below"), others, link, PathBuf::from("/proc/nothing/here")] {
        for _ in 0..2 {
            let outcome = run(&["shape", "3"], &place);
            assert_eq!((&*outcome.result, warnings(&outcome)), (RESULT, 1), "{place:?}: {outcome:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(&file).expect("it is still there"), "content");

    // Missing directories are created. Relative paths start at the working directory.
    for place in ["relative", "with spaces/and more", "./dots/../dots"] {
        for misses in [1, 0] {
            let mut command = command(&["shape", "3"], Path::new(place));
            command.current_dir(scratch.path());
            let outcome = outcome(command);
            assert_eq!((&*outcome.result, outcome.misses, warnings(&outcome)), (RESULT, misses, 0), "{place}");
        }
    }
    assert!(scratch.path().join("with spaces/and more").is_dir());
}

/// Entries that are truncated, changed or replaced by other files are compiled again, once.
#[test]
fn damaged_entries_are_replaced() {
    let scratch = Scratch::new();
    run(&["shape", "3"], &scratch.cache());
    let file = entries(&scratch.cache()).pop().expect("an entry was written");
    let whole = std::fs::read(&file).expect("the entry just written");
    let place = |bytes: &[u8], mode| {
        let _ = std::fs::remove_file(&file);
        std::fs::write(&file, bytes).expect("a writable directory");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    let middle = whole.len() / 2;
    let damaged = [Vec::new(), whole[..middle].to_vec(), flipped(3), flipped(middle), flipped(whole.len() - 1)];
    for bytes in damaged {
        place(&bytes, 0o400);
        let outcome = run(&["shape", "3"], &scratch.cache());
        assert_eq!((&*outcome.result, outcome.misses, warnings(&outcome)), (RESULT, 1, 1), "{outcome:?}");
        assert_eq!(run(&["shape", "3"], &scratch.cache()).hits, 1, "the entry was replaced");
    }
    place(&whole, 0o666);
    let distrusted = run(&["shape", "3"], &scratch.cache());
    assert_eq!((&*distrusted.result, distrusted.misses, warnings(&distrusted)), (RESULT, 1, 1), "{distrusted:?}");
}

/// The entry of a function holds the valid contents of another entry, with hashes.
#[test]
fn an_entry_under_a_wrong_name_is_not_used() {
    let scratch = Scratch::new();
    let other = Scratch::new();
    run(&["shape", "3"], &scratch.cache());
    run(&["constant", "9"], &other.cache());
    let [into, from] = [&scratch, &other].map(|it| entries(&it.cache()).pop().expect("an entry was written"));
    std::fs::remove_file(&into).and_then(|()| std::fs::copy(&from, &into)).expect("a writable directory");
    let outcome = run(&["shape", "3"], &scratch.cache());
    assert_eq!((&*outcome.result, outcome.misses, warnings(&outcome)), (RESULT, 1, 1), "{outcome:?}");
}

/// A limit on the size of files simulates a full disk: every write fails.
#[test]
fn a_full_disk_costs_a_warning() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        let inner = command(&["shape", "3"], &scratch.cache());
        let mut limited = Command::new("sh");
        limited.arg("-c").arg("trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\" | cat");
        wrap(&mut limited, &inner);
        let outcome = outcome(limited);
        assert_eq!((&*outcome.result, outcome.misses, warnings(&outcome)), (RESULT, 1, 1), "{outcome:?}");
        assert_eq!(std::fs::read_dir(scratch.cache()).expect("it was made").count(), 0, "nothing is left over");
    }
}

fn start(program: &[&str], cache: &Path) -> Child {
    command(program, cache).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the test can be started")
}

/// A directory is removed while processes use it.
#[test]
fn a_directory_may_vanish() {
    let scratch = Scratch::new();
    let running: Vec<Child> = (0..3).map(|i| start(&["many", &i.to_string(), "40"], &scratch.cache())).collect();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        let _ = std::fs::remove_dir_all(scratch.cache());
    }
    for child in running {
        assert_right(child);
    }
}

/// Entries are removed while their code is executed in place.
#[test]
fn entries_may_vanish_while_their_code_is_used() {
    let scratch = Scratch::new();
    let place = scratch.cache();
    run(&["large"], &place);
    let outcome = run(&["vanishes", place.to_str().expect("a path of ASCII")], &place);
    assert_eq!((&*outcome.result, outcome.hits, outcome.misses), ("f32 [4.0, 8.0, 12.0]", 1, 1), "{outcome:?}");
    if executes_code() {
        assert!(outcome.code[0] > 0, "{outcome:?}");
    }
}

/// The owner truncates small entries in place while their code is in use. Processes run a copy of such code.
#[test]
fn small_entries_may_be_truncated_in_place() {
    let scratch = Scratch::new();
    let place = scratch.cache();
    run(&["constant", "3"], &place);
    let outcome = run(&["shortened", place.to_str().expect("a path of ASCII")], &place);
    assert_eq!((&*outcome.result, outcome.hits), ("f32 [4.0, 8.0, 12.0]", 1), "{outcome:?}");
}

/// An invalid file of statistics costs a warning, and the answer is right.
#[test]
fn invalid_statistics_cost_a_warning() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.cache().join("statistics")).expect("a writable directory");
    std::fs::set_permissions(scratch.cache(), PermissionsExt::from_mode(0o700)).expect("it is ours");
    let outcome = run(&["shape", "3"], &scratch.cache());
    assert_eq!((&*outcome.result, warnings(&outcome)), (RESULT, 1), "{outcome:?}");
    assert!(outcome.stderr.contains("statistics` are not used: it is not a regular file"), "{outcome:?}");
}

/// A cache on a read-only disk is read, and a missing entry costs a warning.
#[test]
fn a_read_only_directory_is_read() {
    let scratch = Scratch::new();
    run(&["shape", "3"], &scratch.cache());
    for (program, result, misses) in [(["shape", "3"], RESULT, 0), (["constant", "4"], "f32 [4.0, 8.0, 12.0]", 1)] {
        let script = "mount --bind \"$MS_COMPILER_CACHE_PATH\" \"$MS_COMPILER_CACHE_PATH\" && \
            mount -o remount,bind,ro \"$MS_COMPILER_CACHE_PATH\" || exit 77; exec \"$0\" \"$@\"";
        let mut outer = Command::new("unshare");
        outer.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        wrap(&mut outer, &command(&program, &scratch.cache()));
        let refused = |it: &std::process::Output| it.status.code() == Some(77) || it.stderr.starts_with(b"unshare:");
        if outer.output().map_or(true, |it| refused(&it)) {
            return eprintln!("skipped: this system mounts nothing for us");
        }
        let outcome = outcome(outer);
        let seen = (&*outcome.result, outcome.misses, warnings(&outcome) as u64);
        assert_eq!(seen, (result, misses, misses), "{outcome:?}");
    }
}

/// Killed writers leave no valid entry with wrong content.
#[test]
fn killed_processes_leave_no_wrong_entries() {
    let scratch = Scratch::new();
    for wait in (0..12).map(|it| 20 + 15 * it) {
        let mut child = start(&["many", "0", "300"], &scratch.cache());
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().expect("it is a child that was not waited for");
        child.wait().expect("it was killed");
    }
    let outcome = run(&["many", "0", "60"], &scratch.cache());
    assert_eq!((&*outcome.result, warnings(&outcome)), ("i64 [0.0]", 0), "{outcome:?}");
}

/// Twenty processes compile, use and evict the same thousand functions.
#[test]
fn twenty_processes_share_a_thousand_functions() {
    let scratch = Scratch::new();
    let running: Vec<Child> = (0..20)
        .map(|i| {
            let mut command = command(&["many", &(i * 50).to_string(), "1000"], &scratch.cache());
            // The limit is about a third of the size that they write.
            command.env("MS_COMPILER_CACHE_MAX_SIZE", "2M").stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("the test can be started again")
        })
        .collect();
    for child in running {
        assert_right(child);
    }
    let store = ms_cache::Store::open(scratch.cache(), &Default::default()).expect("the directory is ours");
    let (whole, ignored) = store.verify().expect("a readable directory");
    assert!(whole > 0 && ignored.is_empty(), "{whole} entries, {ignored:?}");
}

/// Checks that a process of `many` succeeded, with right results only.
fn assert_right(child: Child) {
    let output = child.wait_with_output().expect("the process ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("result i64 [0.0]"), "{text}\n{errors}");
}
