//! Work that nobody waits for until the process ends.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// How long the end of a process waits for what is still to be done: a disk that does not answer
/// must not keep it from ending.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long work waits for more of it: what is compiled comes in bursts, which are not to share
/// their processor with the writer.
const DELAY: Duration = Duration::from_millis(20);

type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    jobs: VecDeque<Job>,
    /// Run once when the process ends, after the jobs.
    last: Vec<Job>,
    /// Whether the worker is at a job.
    busy: bool,
    /// Whether there is a worker.
    started: bool,
    /// How many wait for everything to be done.
    hurried: usize,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { jobs: VecDeque::new(), last: Vec::new(), busy: false, started: false, hurried: 0 });
/// There is a job.
static WORK: Condvar = Condvar::new();
/// There is none any more.
static IDLE: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `job` on a thread of its own, after those that were given before; the end of the process
/// waits for it.
pub fn in_background(job: impl FnOnce() + Send + 'static) {
    at_exit();
    let mut queue = queue();
    if !queue.started {
        let worker = std::thread::Builder::new().name("ms-cache".into()).spawn(work);
        match worker {
            Ok(_) => queue.started = true,
            // No thread can be had: the job is done here.
            Err(_) => {
                drop(queue);
                return run(Box::new(job));
            }
        }
    }
    queue.jobs.push_back(Box::new(job));
    if queue.jobs.len() == 1 && !queue.busy {
        WORK.notify_one();
    }
}

/// Does `job` when the process ends by returning from `main` or by `exit`, after what is done in
/// the background.
pub fn at_end(job: impl FnOnce() + Send + 'static) {
    at_exit();
    queue().last.push(Box::new(job));
}

/// Waits until everything that was given to [`in_background`] is done, or for ten seconds; says
/// whether it is.
pub fn flush() -> bool {
    let end = Instant::now() + PATIENCE;
    let mut queue = queue();
    queue.hurried += 1;
    WORK.notify_one();
    while queue.busy || !queue.jobs.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        queue = IDLE.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    queue.hurried -= 1;
    !queue.busy && queue.jobs.is_empty()
}

fn work() {
    let mut guard = queue();
    loop {
        let Some(job) = guard.jobs.pop_front() else {
            guard.busy = false;
            IDLE.notify_all();
            while guard.jobs.is_empty() {
                guard = WORK.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
            let patient = |it: &mut Queue| it.hurried == 0;
            guard = WORK.wait_timeout_while(guard, DELAY, patient).unwrap_or_else(PoisonError::into_inner).0;
            continue;
        };
        guard.busy = true;
        drop(guard);
        run(job);
        guard = queue();
    }
}

/// A job that panics has said so; those after it are done all the same.
fn run(job: Job) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
}

/// Has the system call [`end`] when the process ends.
fn at_exit() {
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `atexit` of the C library, which every Rust program of this system is linked to,
        // takes a function without arguments; ours does not unwind. Where it refuses, what is not
        // written by then is compiled again next time.
        let _refused = unsafe { atexit(end) };
    });
}

extern "C" fn end() {
    flush();
    let last = std::mem::take(&mut queue().last);
    last.into_iter().for_each(run);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn jobs_are_done_in_order_and_one_that_panics_stops_nothing() {
        static DONE: AtomicUsize = AtomicUsize::new(0);
        for i in 0..100 {
            in_background(move || {
                assert!(i != 50, "this message is part of the test");
                DONE.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert!(flush());
        assert_eq!(DONE.load(Ordering::Relaxed), 99);
    }
}
