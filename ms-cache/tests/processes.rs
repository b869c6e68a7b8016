//! Tests concurrent threads and processes on one store: every hit must be correct.

mod common;

use common::{Scratch, key, open};
use ms_cache::{Contents, Miss, Options, Store};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Passes the directory of the store and the task to a process that these tests start.
const DIRECTORY: &str = "MS_CACHE_TEST_DIRECTORY";
const TASK: &str = "MS_CACHE_TEST_TASK";

/// The number of keys that all workers use. The cap holds about a third of them.
const KEYS: usize = 30;
const MAX_BYTES: u64 = 40_000;

/// Returns the payload of a key, distinguished by its length and its bytes.
fn payload(index: usize) -> Vec<u8> {
    (0..1000 + 100 * index).map(|i| (i * (index + 3)) as u8).collect()
}

/// Gets and puts all keys, in a different order for each worker. Returns the number of hits.
fn work(store: &Store, worker: usize, rounds: usize) -> usize {
    let mut hits = 0;
    for step in 0..rounds * KEYS {
        let index = (step * 7 + worker * 11) % KEYS;
        let key = key(&index.to_string());
        match store.get(&key) {
            Ok(mapped) => {
                assert!(mapped.data() == payload(index), "a wrong payload for {index}");
                hits += 1;
            }
            Err(Miss::Absent) => store.put(&key, &Contents::data(&payload(index))).expect("a writable directory"),
            Err(miss) => panic!("entries are whole at any time: {miss:?}"),
        }
        if step % 50 == worker {
            store.gc().expect("a writable directory");
            store.remove(&key).expect("a writable directory");
        }
    }
    hits
}

/// Runs this test again in a process that does `task` in the store at `path`.
fn start(task: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().expect("the test runs"))
        .args(["--exact", "process"])
        .env(DIRECTORY, path)
        .env(TASK, task)
        .stdout(Stdio::null())
        .spawn()
        .expect("the test can be started again")
}

/// The body of the processes that [`start`] starts. Does nothing in an ordinary run.
#[test]
fn process() {
    let (Ok(path), Ok(task)) = (std::env::var(DIRECTORY), std::env::var(TASK)) else { return };
    let store = open(&PathBuf::from(path), MAX_BYTES);
    match task.parse() {
        Ok(worker) => drop(work(&store, worker, 4)),
        // The number of puts is bounded, so that a writer terminates even if its tester was killed.
        Err(_) => (0..1000 * KEYS).map(|step| step % KEYS).for_each(|index| {
            store.put(&key(&index.to_string()), &Contents::data(&payload(index))).expect("a writable directory");
        }),
    }
}

#[test]
fn threads_share_a_store() {
    let scratch = Scratch::new();
    let store = open(&scratch.cache(), MAX_BYTES);
    let hits: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|worker| {
                scope.spawn({
                    let store = &store;
                    move || work(store, worker, 6)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no worker fails")).sum()
    });
    assert!(hits > 0, "the workers meet no entry of each other");
    store.gc().expect("a writable directory");
    assert_whole(&store);
}

#[test]
fn processes_share_a_store() {
    let scratch = Scratch::new();
    let workers: Vec<_> = (0..5).map(|worker| start(&worker.to_string(), &scratch.cache())).collect();
    for mut worker in workers {
        assert!(worker.wait().expect("the worker ends").success());
    }
    let store = open(&scratch.cache(), MAX_BYTES);
    store.gc().expect("a writable directory");
    assert_whole(&store);
}

#[test]
fn a_writer_that_is_killed_leaves_nothing_wrong() {
    let scratch = Scratch::new();
    for wait in [30, 60, 90, 120] {
        let mut writer = start("write", &scratch.cache());
        std::thread::sleep(Duration::from_millis(wait));
        writer.kill().expect("the writer is a child not waited for");
        writer.wait().expect("it was killed");
    }
    let options = Options { max_bytes: MAX_BYTES, abandoned_after: Duration::ZERO, ..Options::default() };
    let store = Store::open(scratch.cache(), &options).expect("the directory is ours");
    store.gc().expect("a writable directory");
    assert_whole(&store);
}

/// Checks that every file is a valid entry with the right payload, and that together they are under the cap.
fn assert_whole(store: &Store) {
    let listing = store.entries().expect("a readable directory");
    assert!(listing.ignored.is_empty(), "{listing:?}");
    assert!(listing.entries.iter().map(|entry| entry.file_bytes).sum::<u64>() <= MAX_BYTES);
    let files = common::count_files(store.path());
    assert_eq!(files, listing.entries.len(), "unfinished files are left");
    let found = (0..KEYS).filter(|&index| match store.get(&key(&index.to_string())) {
        Ok(mapped) => mapped.data() == payload(index) || panic!("a wrong payload for {index}"),
        Err(_) => false,
    });
    assert_eq!(found.count(), files);
}
