//! Tests who may read and write a cache, and which entries are trusted.

use crate::process::{Outcome, Scratch, command, outcome, wrap};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const RESULT: &str = "f32 [3.0, 6.0, 9.0]";

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").mode() & 0o7777
}

/// Only their owner can access directories and entries, whatever the umask of the process.
#[test]
fn only_the_owner_can_read_or_write_a_cache() {
    for mask in ["000", "022", "077"] {
        let scratch = Scratch::new();
        let place = scratch.path().join("above/cache");
        let mut masked = Command::new("sh");
        masked.arg("-c").arg(format!("umask {mask}; exec \"$0\" \"$@\""));
        wrap(&mut masked, &command(&["constant", "3"], &place));
        assert_eq!(outcome(masked).result, RESULT);
        assert_eq!((mode(&place.join("..")), mode(&place)), (0o700, 0o700), "umask {mask}");
        let files = std::fs::read_dir(&place).expect("it was made").flatten().map(|it| it.path());
        let is_entry = |it: &PathBuf| it.extension().is_some_and(|it| it == "entry");
        let (entries, others): (Vec<_>, Vec<_>) = files.partition(is_entry);
        assert!(entries.len() == 1 && mode(&entries[0]) == 0o400, "umask {mask}: {entries:?}");
        assert!(others.iter().all(|it| mode(it) & 0o077 == 0), "umask {mask}: {others:?}");
    }
}

/// A directory that everyone may write needs a key file. Entries by owners of the key are trusted, and their code is
/// copied before it is executed.
#[test]
fn a_key_authenticates_entries_of_other_users() {
    let scratch = Scratch::new();
    let shared = scratch.cache();
    std::fs::create_dir(&shared).expect("a writable directory");
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o777)).expect("it is ours");
    let key = |name: &str, byte: u8, mode| {
        let path = scratch.path().join(name);
        std::fs::write(&path, [byte; 32]).expect("a writable directory");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("it is ours");
        path
    };
    let run = |key: Option<&Path>| -> Outcome {
        let mut command = command(&["constant", "3"], &shared);
        if let Some(key) = key {
            command.env("MS_COMPILER_CACHE_KEY", key);
        }
        outcome(command)
    };
    let (first, other, open) = (key("first", 1, 0o400), key("other", 2, 0o400), key("open", 1, 0o444));
    let missing = scratch.path().join("missing");
    let cases = [
        // Each case has the key, hits, misses, and the warning.
        (None, [0, 0], "others may write it"),
        (Some(&first), [0, 1], ""),
        (Some(&first), [1, 0], ""),
        (Some(&other), [0, 1], "another secret key"),
        (Some(&open), [0, 0], "the key file `"),
        (Some(&open), [0, 0], "others may read it"),
        (Some(&missing), [0, 0], "missing` cannot be read: No such file"),
    ];
    for (key, counts, warning) in cases {
        let outcome = run(key.map(PathBuf::as_path));
        assert_eq!((&*outcome.result, [outcome.hits, outcome.misses]), (RESULT, counts), "{key:?}: {outcome:?}");
        let warnings = outcome.stderr.matches("warning[MS150]").count();
        assert_eq!(warnings, usize::from(!warning.is_empty()), "{key:?}: {outcome:?}");
        assert!(outcome.stderr.contains(warning), "{key:?}: {outcome:?}");
        assert_eq!(outcome.code[0], 0, "code of a shared directory is not run where it lies: {outcome:?}");
    }
}
