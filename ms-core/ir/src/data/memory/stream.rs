//! Defines streams, the queues of a device's work, and fences, points in them.

use super::Memory;
use crate::environment::Variable;
use crate::environment_variables;
use crate::error::{Error, Result};
use std::cell::RefCell;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, Once, PoisonError};

environment_variables! {
    /// Whether the host waits after every step that it submits to a device, so that errors are reported at once.
    static DEVICE_SYNC: Variable<bool> = Variable::switch("MS_DEVICE_SYNC");
}

/// The purpose of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamKind {
    /// Kernels and programs, and the freeing of their memory.
    Compute,
    /// Copies from and to the host and other devices.
    Copy,
    /// Communication with other ranks.
    Communicate,
}

/// A queue of device work, by its number on the device. Its work runs in submission order. The work of two streams runs
/// in any order, unless one [awaits](Streams::order_after) a fence of the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stream(pub u32);

/// A point in the work of a stream: the end of the work submitted so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fence {
    /// The stream.
    pub stream: Stream,
    /// The number of the last work item, counted from 1.
    pub serial: u64,
}

/// The origin of work, for errors that occur when it runs.
pub trait Origin: Send + Sync {
    /// Adds the op and the user's source location to the error.
    fn explain(&self, error: Error) -> Error;
}

/// The streams of a device.
///
/// A stream has an *error word*. Failing work sets it. While it is set, later work may run or not, and has no result:
/// what the memory holds that it writes is unspecified. Two kinds of work look at the word. *Guarded* work, which
/// writes over old values of slots, does nothing while the word is set. [`Memory::restore`] only then copies old
/// values. [Depending](Streams::depend_on) on the work of another stream sets the word if the other stream's word was
/// set at that point. The first [wait](Streams::wait) for the failed work or later work returns its error. The wait
/// also clears the words that the failure set, when the queued work after it has ended.
pub trait Streams: Send + Sync {
    /// Lends a stream without pending work or errors, on which nothing else submits work until
    /// [`give_back`](Streams::give_back).
    fn lend(&self, kind: StreamKind) -> Stream;

    /// Ends the loan of a stream. Its pending work still runs.
    fn give_back(&self, stream: Stream);

    /// Sets the origin of the work that is submitted to a stream from now on.
    fn set_origin(&self, stream: Stream, origin: Option<Arc<dyn Origin>>);

    /// Returns the end of the work submitted to a stream so far. Work that only frees memory has no result and does not
    /// count.
    fn fence(&self, stream: Stream) -> Fence;

    /// Makes later work of a stream begin when the work up to a fence has ended, even if it fails.
    fn order_after(&self, stream: Stream, fence: Fence);

    /// Orders work like [`Streams::order_after`], for work that needs the results. It has none if the other stream's
    /// word is set at the fence.
    fn depend_on(&self, stream: Stream, fence: Fence);

    /// Checks whether the work at a fence has a result, as far as earlier waits have found out. Does not wait.
    ///
    /// # Errors
    /// The error of the work, if a wait has returned it.
    fn check(&self, fence: Fence) -> Result<()>;

    /// Waits until the work up to a fence has ended.
    ///
    /// # Errors
    /// The error of the work at the fence, or of other work that failed before it, unless an earlier wait returned it.
    fn wait(&self, fence: Fence) -> Result<()>;

    /// Waits until the work up to a fence has ended, even if it fails. Its error remains for a later wait.
    fn finish(&self, fence: Fence);

    /// Waits until the work of all streams has ended.
    ///
    /// # Errors
    /// The first error that no wait has returned, of one of these streams, or of any. Others remain for later waits.
    fn synchronize(&self, told: Option<&[Stream]>) -> Result<()>;
}

/// A stream that a thread borrows until it ends.
struct Lent {
    memory: &'static dyn Memory,
    kind: StreamKind,
    stream: Stream,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.memory.give_back(self.stream);
    }
}

thread_local! {
    static LENT: RefCell<Vec<Lent>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with the thread's stream of this kind.
pub fn with_stream<R>(memory: &'static dyn Memory, kind: StreamKind, f: impl FnOnce(Stream) -> R) -> R {
    match lent(memory, kind) {
        Some(stream) => f(stream),
        // The thread is ending.
        None => {
            let lent = Lent { memory, kind, stream: memory.lend(kind) };
            f(lent.stream)
        }
    }
}

/// Returns the stream that is lent to this thread, or `None` if the thread is ending.
fn lent(memory: &'static dyn Memory, kind: StreamKind) -> Option<Stream> {
    let found = LENT.try_with(|lent| {
        let device = memory.device();
        let known = lent.borrow().iter().find(|it| it.kind == kind && it.memory.device() == device).map(|it| it.stream);
        known.unwrap_or_else(|| {
            used(memory);
            let stream = memory.lend(kind);
            lent.borrow_mut().push(Lent { memory, kind, stream });
            stream
        })
    });
    found.ok()
}

/// Waits for a step that was submitted to a device, if `MS_DEVICE_SYNC` is set.
///
/// # Errors
/// See [`Streams::wait`].
pub fn sync_step(memory: &dyn Memory, fence: Fence) -> Result<()> {
    match DEVICE_SYNC.value() {
        Some(true) => memory.wait(fence),
        _ => Ok(()),
    }
}

/// The devices to which the process has submitted work.
static USED: Mutex<Vec<&'static dyn Memory>> = Mutex::new(Vec::new());

fn used_devices() -> Vec<&'static dyn Memory> {
    USED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn used(memory: &'static dyn Memory) {
    static EXIT: Once = Once::new();
    let mut all = USED.lock().unwrap_or_else(PoisonError::into_inner);
    if !all.iter().any(|it| it.device() == memory.device()) {
        all.push(memory);
    }
    drop(all);
    EXIT.call_once(|| {
        // SAFETY: `report_errors` takes no arguments, does not unwind, and is in the executable, which is never
        // unloaded. If registration fails, nothing is reported.
        let _registered = unsafe { atexit(report_errors) };
    });
}

/// Waits for all work that was submitted to devices.
///
/// # Errors
/// The first error of the calling thread's work that no wait has returned. Others remain for later waits. Errors of
/// other threads' work remain for their waits.
///
/// ```
/// ms_core::synchronize()?;
/// # Ok::<(), ms_core::Error>(())
/// ```
pub fn synchronize() -> Result<()> {
    for memory in used_devices() {
        let device = memory.device();
        let of_device = |it: &&Lent| it.memory.device() == device;
        let own: Vec<Stream> = LENT.with_borrow(|lent| lent.iter().filter(of_device).map(|it| it.stream).collect());
        memory.synchronize(Some(&own))?;
    }
    Ok(())
}

unsafe extern "C" {
    /// Registers a function that runs when the process exits.
    fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
}

/// Warns of errors that no wait has returned.
extern "C" fn report_errors() {
    let report = || {
        for memory in used_devices() {
            while let Err(error) = memory.synchronize(None) {
                let error = error.within("work on a device for which nobody waited");
                eprintln!("{}", error.as_warning());
            }
        }
    };
    // The exiting thread has destroyed its thread-locals, which running work may need.
    let reported = catch_unwind(|| std::thread::Builder::new().spawn(report).map(|it| it.join()));
    drop(reported);
}
