//! Runs tasks: short pieces of parallel work inside an op.
//!
//! A task consists of chunks that any thread may claim. The caller participates. Completed chunks are counted instead
//! of threads, so a thread that the system has descheduled delays nobody unless it has claimed a chunk. Starting a task
//! takes a few atomic operations while the workers are awake, far fewer than in a work-stealing pool.
//!
//! Several callers may each run a task at the same time. Every worker starts its search for tasks at a different slot,
//! and moves on when a task has no unclaimed chunk left.

pub(crate) mod parallel;
pub(crate) mod partition;
pub(crate) mod split_reduction;

pub use partition::{call_batch, is_short};

use ms_ir::environment::{Variable, number};
use ms_ir::environment_variables;
use ms_ir::error::Result;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Tasks with less estimated work run on the caller alone.
const SERIAL_NANOS: usize = 5_000;

/// The estimated work that justifies waking sleeping workers, which costs the caller a system call. The work of smaller
/// tasks adds up.
const WAKE_NANOS: usize = 60_000;

/// The time after which an idle worker falls asleep.
const SPIN: Duration = Duration::from_micros(100);

/// The maximum number of tasks that share the workers at the same time.
const SLOTS: usize = 16;

/// The maximum number of chunks of a task, which is stored in half a word.
const MAX_SLOT_CHUNKS: usize = u32::MAX as usize;

thread_local! {
    /// Whether this thread is running a chunk, or is inside [`serial`].
    static SERIAL: Cell<bool> = const { Cell::new(false) };
}

/// The maximum number of threads of a pool.
const MAX_THREADS: usize = 256;

environment_variables! {
    static NUM_THREADS: Variable<usize> = Variable::new(
        "MS_NUM_THREADS",
        |it| number(it).filter(|it| (1..=MAX_THREADS).contains(it)),
        || format!("a number from 1 to {MAX_THREADS}"),
    );
}

/// Returns the number of threads of the process's pool, including the caller. This is `MS_NUM_THREADS`, or else the
/// number of processors.
#[inline]
pub fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let machine = || std::thread::available_parallelism().map_or(1, |it| it.get()).min(MAX_THREADS);
        NUM_THREADS.value().unwrap_or_else(machine)
    })
}

/// Runs `f` on the numbers below `chunks`, on several threads if `nanos` is large enough. `nanos` is the estimated
/// total work in nanoseconds. A call inside a chunk runs on its thread alone.
///
/// # Panics
/// Resumes the panic of a chunk, after all other chunks have completed.
pub fn for_each(chunks: usize, nanos: usize, f: impl Fn(usize) + Sync) {
    static POOL: OnceLock<Pool> = OnceLock::new();
    if chunks <= 1 || nanos < SERIAL_NANOS || count() == 1 || SERIAL.get() {
        return (0..chunks).for_each(f);
    }
    POOL.get_or_init(|| Pool::start(count() - 1)).run(chunks, nanos, &f);
}

/// Returns whether this thread shares its work with others.
#[inline]
pub fn is_several() -> bool {
    count() > 1 && !SERIAL.get()
}

/// Runs a fallible function like [`for_each`]. All chunks run, even if some fail.
///
/// # Errors
/// The error of one of the chunks that failed.
pub fn try_for_each(chunks: usize, nanos: usize, f: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let failed = OnceLock::new();
    for_each(chunks, nanos, |chunk| {
        if let Err(error) = f(chunk) {
            // Only one error is reported, whichever comes first.
            let _ = failed.set(error);
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Runs `f`. The tasks that it starts run on this thread alone.
pub fn serial<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            SERIAL.set(self.0);
        }
    }
    let _restore = Restore(SERIAL.replace(true));
    f()
}

/// A pool of worker threads that wait for tasks.
struct Pool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// A slot for each concurrent caller.
    slots: [Slot; SLOTS],
    /// The number of slots, counted from the first, that were ever used. Workers only look at these.
    used: AtomicUsize,
    /// The number of sleeping workers.
    asleep: AtomicUsize,
    /// The estimated work of tasks that found workers asleep and did not wake them.
    missed: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
    stop: AtomicBool,
}

/// The task of one caller.
#[derive(Default)]
struct Slot {
    /// The number of the task in the upper half, and the number of its unclaimed chunks in the lower half.
    state: Line<AtomicU64>,
    /// The number of completed chunks of the task.
    done: Line<AtomicUsize>,
    /// Whether a caller occupies the slot.
    busy: AtomicBool,
    /// The function of the task. The caller writes it before the task opens. Threads that have claimed a chunk read it,
    /// and the task does not end before their chunks complete.
    job: JobSlot,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A value on separate cache lines, which avoids false sharing.
#[derive(Default)]
#[repr(align(128))]
struct Line<T>(T);

#[derive(Default)]
struct JobSlot(Cell<Option<Job>>);

// SAFETY: a job is written before `Slot::state` opens the task, and read only after a chunk was claimed from it. Both
// accesses of `Slot::state` order the write before the read.
unsafe impl Sync for JobSlot {}
// SAFETY: the function of a job is `Sync`, and a job only holds a pointer to it.
unsafe impl Send for JobSlot {}

/// The function of a task on chunk numbers, and the number of chunks. The function outlives the task.
#[derive(Clone, Copy)]
struct Job {
    f: *const (dyn Fn(usize) + Sync),
    chunks: usize,
}

impl Pool {
    /// Starts a pool with `workers` workers, or fewer if the system cannot start threads.
    fn start(workers: usize) -> Self {
        let shared = Arc::new(Shared::default());
        for i in 0..workers {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("ms-worker-{i}"));
            // Fewer threads make tasks slower, but not wrong.
            drop(thread.spawn(move || shared.serve(i)));
        }
        Self { shared }
    }

    fn run(&self, chunks: usize, nanos: usize, f: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.shared;
        let Some(at) = (if chunks <= MAX_SLOT_CHUNKS { shared.take_slot() } else { None }) else {
            return (0..chunks).for_each(f);
        };
        let slot = &shared.slots[at];
        // SAFETY: only the lifetime changes. All chunks complete before this function returns, so `f` outlives every
        // use.
        let f = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(f) };
        slot.job.0.set(Some(Job { f, chunks }));
        slot.done.0.store(0, Ordering::Relaxed);
        let task = slot.task(Ordering::Relaxed).wrapping_add(1) & u64::from(u32::MAX);
        // Sequential consistency with `asleep` ensures that a worker either sees the task or is seen asleep.
        slot.state.0.store(task << 32 | chunks as u64, Ordering::SeqCst);
        if shared.asleep.load(Ordering::SeqCst) > 0 {
            shared.consider_waking(nanos);
        }
        slot.work(task);
        let mut spins = 0u32;
        while slot.done.0.load(Ordering::Acquire) != chunks {
            spins += 1;
            if spins < 2000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        slot.job.0.set(None);
        let panic = slot.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        slot.busy.store(false, Ordering::Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(self.shared.lock.lock());
        self.shared.wake.notify_all();
    }
}

impl Slot {
    /// Returns the number of the latest task.
    fn task(&self, order: Ordering) -> u64 {
        self.state.0.load(order) >> 32
    }

    /// Claims and runs chunks of a task until none is left.
    fn work(&self, task: u64) {
        let mut state = self.state.0.load(Ordering::Acquire);
        loop {
            let left = state & u64::from(u32::MAX);
            if state >> 32 != task || left == 0 {
                return;
            }
            let claim = self.state.0.compare_exchange_weak(state, state - 1, Ordering::AcqRel, Ordering::Acquire);
            if let Err(newer) = claim {
                state = newer;
                continue;
            }
            let job = self.job.0.get().expect("a task that has an unclaimed chunk is open");
            // SAFETY: the caller of the task waits until this chunk is counted as done, so its function is still alive.
            let f = unsafe { &*job.f };
            let chunk = job.chunks - left as usize;
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| serial(|| f(chunk)))) {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
            }
            self.done.0.fetch_add(1, Ordering::Release);
            state = self.state.0.load(Ordering::Acquire);
        }
    }
}

impl Shared {
    /// Claims a free slot, if there is one.
    fn take_slot(&self) -> Option<usize> {
        let at = self.slots.iter().position(|it| !it.busy.swap(true, Ordering::Acquire))?;
        if self.used.load(Ordering::Relaxed) <= at {
            // This comes before the task opens, as a worker that falls asleep reads both in the opposite order.
            self.used.fetch_max(at + 1, Ordering::SeqCst);
        }
        Some(at)
    }

    /// Runs the loop of a worker. Its number decides at which slot it begins to look for tasks.
    fn serve(&self, worker: usize) {
        let mut seen = [0; SLOTS];
        let mut idle = Instant::now();
        let mut spins = 0u32;
        while !self.stop.load(Ordering::Relaxed) {
            let used = self.used.load(Ordering::Relaxed);
            let mut worked = false;
            for offset in 0..used {
                let at = (worker + offset) % used;
                let task = self.slots[at].task(Ordering::Acquire);
                if task != seen[at] {
                    seen[at] = task;
                    self.slots[at].work(task);
                    worked = true;
                }
            }
            if worked {
                idle = Instant::now();
                continue;
            }
            std::hint::spin_loop();
            spins = spins.wrapping_add(1);
            // The clock is read rarely, so that the loop notices a task at once.
            if spins.is_multiple_of(64) && idle.elapsed() > SPIN {
                self.sleep(&seen);
                idle = Instant::now();
            }
        }
    }

    /// Sleeps until a slot has a task that was not seen before.
    fn sleep(&self, seen: &[u64; SLOTS]) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let has_more = || {
            let used = self.used.load(Ordering::SeqCst);
            self.slots[..used].iter().zip(seen).any(|(slot, &seen)| slot.task(Ordering::SeqCst) != seen)
        };
        // A task that is too small to wake workers runs on its caller.
        let mut woken = has_more();
        while !woken && !self.stop.load(Ordering::SeqCst) {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
            woken = has_more();
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    fn consider_waking(&self, nanos: usize) {
        let missed = self.missed.load(Ordering::Relaxed).saturating_add(nanos);
        let wake = missed >= WAKE_NANOS;
        self.missed.store(if wake { 0 } else { missed }, Ordering::Relaxed);
        if wake {
            drop(self.lock.lock());
            self.wake.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    const LARGE: usize = 1 << 30;

    #[test]
    fn every_chunk_runs_once() {
        for workers in [0, 1, 3] {
            let pool = Pool::start(workers);
            for chunks in [1usize, 2, 7, 1000] {
                for nanos in [1, LARGE] {
                    let hits: Vec<AtomicU32> = (0..chunks).map(|_| AtomicU32::new(0)).collect();
                    pool.run(chunks, nanos, &|i| {
                        hits[i].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(hits.iter().all(|it| it.load(Ordering::Relaxed) == 1), "{workers} workers");
                }
            }
        }
    }

    #[test]
    fn tasks_follow_one_another() {
        let pool = Pool::start(2);
        let sum = AtomicUsize::new(0);
        for _ in 0..5000 {
            pool.run(4, LARGE, &|i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
        }
        assert_eq!(sum.load(Ordering::Relaxed), 5000 * 6);
    }

    #[test]
    fn workers_wake_from_sleep() {
        let pool = Pool::start(1);
        std::thread::sleep(Duration::from_millis(20));
        let mut helped = false;
        for _ in 0..50 {
            let caller = std::thread::current().id();
            let others = AtomicU32::new(0);
            pool.run(20, LARGE, &|_| {
                std::thread::sleep(Duration::from_micros(200));
                others.fetch_add(u32::from(std::thread::current().id() != caller), Ordering::Relaxed);
            });
            helped |= others.load(Ordering::Relaxed) > 0;
        }
        assert!(helped, "a worker claimed chunks");
    }

    #[test]
    fn nested_tasks_run_inside_their_chunk() {
        let total = AtomicUsize::new(0);
        for_each(8, LARGE, |_| {
            let caller = std::thread::current().id();
            for_each(8, LARGE, |_| {
                assert_eq!(std::thread::current().id(), caller);
                total.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(total.load(Ordering::Relaxed), 64);
    }

    #[test]
    fn concurrent_callers_do_not_wait_for_one_another() {
        let pool = Pool::start(1);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        pool.run(5, LARGE, &|i| {
                            total.fetch_add(i, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 4 * 500 * 10);
    }

    /// The chunks of two tasks wait for each other, so each caller needs a worker at the same time.
    #[test]
    fn tasks_of_several_callers_share_the_workers() {
        let pool = Pool::start(2);
        let (present, met) = (AtomicU32::new(0), AtomicU32::new(0));
        let wait = |_| {
            present.fetch_add(1, Ordering::SeqCst);
            let start = Instant::now();
            while present.load(Ordering::SeqCst) < 4 && start.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
            met.fetch_add(u32::from(present.load(Ordering::SeqCst) == 4), Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| pool.run(2, LARGE, &wait));
            }
        });
        assert_eq!(met.load(Ordering::SeqCst), 4);
    }

    /// There are more callers than slots. Callers without a slot run their tasks alone.
    #[test]
    fn every_caller_is_served() {
        let pool = Pool::start(2);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..SLOTS + 4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        pool.run(3, LARGE, &|i| {
                            std::thread::yield_now();
                            total.fetch_add(i, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), (SLOTS + 4) * 50 * 3);
    }

    #[test]
    fn a_panic_reaches_the_caller_after_the_others_are_done() {
        let pool = Pool::start(2);
        for _ in 0..20 {
            let done = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(16, LARGE, &|i| {
                    if i == 3 {
                        resume_unwind(Box::new("chunk three"));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }));
            let payload = result.expect_err("the chunk's panic");
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"chunk three"));
            assert_eq!(done.load(Ordering::Relaxed), 15);
        }
        let ran = AtomicUsize::new(0);
        pool.run(4, LARGE, &|_| {
            ran.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(ran.load(Ordering::Relaxed), 4);
    }
}
