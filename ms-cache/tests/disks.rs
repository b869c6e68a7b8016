//! Tests full and read-only disks: a put fails, and stored entries remain.
//!
//! The disks are in memory, in a mount namespace of a separate process. Where the system does not permit that, the
//! tests are skipped.

mod common;

use common::{Scratch, key, open};
use ms_cache::{Contents, Error, Miss};
use std::path::PathBuf;
use std::process::Command;

/// Passes the path of the mounted disk to the process that [`on_disk`] starts.
const DISK: &str = "MS_CACHE_TEST_DISK";

/// Runs the test `name` again in a process with a disk of 256 KiB. That process gets the path of the disk, and this
/// process gets `None`.
fn on_disk(name: &str) -> Option<PathBuf> {
    if let Ok(disk) = std::env::var(DISK) {
        return Some(PathBuf::from(disk));
    }
    const MOUNT: &str = "mount -t tmpfs -o size=256k,mode=0700 none \"$0\"";
    let scratch = Scratch::new();
    let disk = scratch.join("disk");
    std::fs::create_dir(&disk).expect("a writable directory");
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(&disk);
        command.arg(std::env::current_exe().expect("the test runs")).arg(name).env(DISK, &disk).output()
    };
    if !run(MOUNT).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this system lets no ordinary process mount a disk");
        return None;
    }
    let output = run(&format!("{MOUNT} && exec \"$1\" --exact \"$2\"")).expect("it could be run before");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    None
}

#[test]
fn a_full_disk_refuses_new_entries() {
    let Some(disk) = on_disk("a_full_disk_refuses_new_entries") else { return };
    let store = open(&disk, u64::MAX);
    store.put(&key("first"), &Contents::data(&[1; 100_000])).expect("there is room for one");
    for refused in ["first", "second"] {
        let full = store.put(&key(refused), &Contents::data(&[2; 200_000]));
        assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
        let files = common::count_files(&disk);
        assert_eq!(files, 1, "the unfinished file takes no room");
    }
    assert_eq!(store.get(&key("first")).expect("the old entry is still there").data(), [1; 100_000]);
    assert!(matches!(store.get(&key("second")), Err(Miss::Absent)));
    store.clear().expect("removing needs no room");
    store.put(&key("second"), &Contents::data(&[2; 200_000])).expect("there is room again");
}

#[test]
fn a_read_only_disk_is_read() {
    let Some(disk) = on_disk("a_read_only_disk_is_read") else { return };
    open(&disk, u64::MAX).put(&key("g"), &Contents::data(b"payload")).expect("a writable directory");
    let remounted = Command::new("mount").args(["-o", "remount,bind,ro"]).arg(&disk).status();
    assert!(remounted.expect("it was mounted by the same command").success());

    let store = open(&disk, u64::MAX);
    assert_eq!(store.get(&key("g")).expect("reading is allowed").data(), b"payload");
    for refused in
        [store.put(&key("h"), &Contents::data(b"")), store.remove(&key("g")).map(drop), store.clear().map(drop)]
    {
        assert!(matches!(refused, Err(Error::ReadOnly(_))), "{refused:?}");
    }
    let below = ms_cache::Store::open(disk.join("missing"), &ms_cache::Options::default());
    assert!(matches!(below, Err(Error::ReadOnly(_))), "{below:?}");
}
