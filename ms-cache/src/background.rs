//! Runs background jobs, which finish before the process ends.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// The time for which the end of a process waits for pending jobs. A disk that does not respond must not block it for
/// longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The delay before the worker begins with queued jobs. Compilations come in bursts, and the writer should not compete
/// with them for a processor.
const DELAY: Duration = Duration::from_millis(20);

type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    jobs: VecDeque<Job>,
    /// Jobs that run once when the process ends, after all other jobs.
    last: Vec<Job>,
    /// Whether the worker is running a job.
    busy: bool,
    /// Whether there is a worker.
    started: bool,
    /// The number of threads that wait for all jobs.
    hurried: usize,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { jobs: VecDeque::new(), last: Vec::new(), busy: false, started: false, hurried: 0 });
/// Signals that there is a job.
static WORK: Condvar = Condvar::new();
/// Signals that no job is left.
static IDLE: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `job` on the worker thread, after the jobs queued before it. The end of the process waits for it.
pub fn in_background(job: impl FnOnce() + Send + 'static) {
    at_exit();
    let mut queue = queue();
    if !queue.started {
        let worker = std::thread::Builder::new().name("ms-cache".into()).spawn(work);
        match worker {
            Ok(_) => queue.started = true,
            // No thread can be started, so the job runs on the calling one.
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

/// Runs `job` after the background jobs when the process ends by returning from `main` or by `exit`.
pub fn at_end(job: impl FnOnce() + Send + 'static) {
    at_exit();
    queue().last.push(Box::new(job));
}

/// Waits until all jobs passed to [`in_background`] are done, for at most ten seconds. Returns whether they are done.
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

/// Runs a job. If it panics, its message was printed, and later jobs run nevertheless.
fn run(job: Job) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
}

/// Registers [`end`] to be called when the process ends.
fn at_exit() {
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `atexit` is the C library's function of this signature, which every Rust program on this system
        // links. `end` takes no arguments and does not unwind. If registration fails, unwritten entries are compiled
        // again next time.
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
