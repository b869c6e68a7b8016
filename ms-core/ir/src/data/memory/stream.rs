//! Streams: the queues of a device's work, and points in them.

use super::Memory;
use crate::environment::Variable;
use crate::environment_variables;
use crate::error::{Error, Result};
use std::cell::RefCell;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, Once, PoisonError};

environment_variables! {
    /// Whether the host waits after every step that it gives to a device, so that errors come at once.
    static DEVICE_SYNC: Variable<bool> = Variable::switch("MS_DEVICE_SYNC");
}

/// What a stream is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamKind {
    /// Kernels and programs, and what frees their memory.
    Compute,
    /// Copies from and to the host.
    Copy,
}

/// A queue of work of a device, by its number among those of the device. Its work runs in the order in which
/// it was put there; the work of two streams runs in any order, unless one [awaits](Streams::order_after) a
/// fence of the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stream(pub u32);

/// A point in the work of a stream: the end of the work that was put there until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fence {
    /// The stream.
    pub stream: Stream,
    /// The number of its work, counted from 1.
    pub serial: u64,
}

/// Where work comes from, for errors that come when it runs.
pub trait Origin: Send + Sync {
    /// The error with the op and the user's line.
    fn explain(&self, error: Error) -> Error;
}

/// The streams of a device.
///
/// A stream has an *error word*. Work that fails sets it, and the work behind it is not run while it is set, so
/// that what it would have written is lost; [`Memory::restore`] undoes the loss. [Depending](Streams::depend_on)
/// on the work of another stream sets the word if the other one was set at that point. The first
/// [wait](Streams::wait) for work at or behind the one that failed returns its error and clears the words that it
/// set, when what was queued behind it has ended.
pub trait Streams: Send + Sync {
    /// A stream on which nobody else puts work until it is [given back](Streams::give_back), without work and
    /// errors of others.
    fn lend(&self, kind: StreamKind) -> Stream;

    /// Ends the loan of a stream. Its work is run nevertheless.
    fn give_back(&self, stream: Stream);

    /// Sets where the work that is put on a stream from here on comes from.
    fn set_origin(&self, stream: Stream, origin: Option<Arc<dyn Origin>>);

    /// The end of the work that was put on a stream until now. Work that only frees memory, which has no result, does
    /// not count.
    fn fence(&self, stream: Stream) -> Fence;

    /// Later work of a stream begins when the work up to a fence has ended, even if it fails.
    fn order_after(&self, stream: Stream, fence: Fence);

    /// [`Streams::order_after`] for work that needs the results: it is not run if the other stream's word is set at
    /// the fence.
    fn depend_on(&self, stream: Stream, fence: Fence);

    /// Whether the work at a fence has a result, as far as a wait has told. Waits for nothing.
    ///
    /// # Errors
    /// That of the work, if a wait has returned it.
    fn check(&self, fence: Fence) -> Result<()>;

    /// Waits until the work up to a fence has ended.
    ///
    /// # Errors
    /// That of the work at the fence, or of other work that failed before it, unless an earlier wait returned it.
    fn wait(&self, fence: Fence) -> Result<()>;

    /// Waits until the work of all streams has ended.
    ///
    /// # Errors
    /// The first error that no wait has returned, of one of these streams, or of any. Others remain for later waits.
    fn synchronize(&self, told: Option<&[Stream]>) -> Result<()>;
}

/// A stream that is lent to a thread, until the thread ends.
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

/// Calls `f` with the stream of this kind that is lent to the thread.
pub fn with_stream<R>(memory: &'static dyn Memory, kind: StreamKind, f: impl FnOnce(Stream) -> R) -> R {
    let lent = LENT.try_with(|lent| {
        let device = memory.device();
        let known = lent.borrow().iter().find(|it| it.kind == kind && it.memory.device() == device).map(|it| it.stream);
        known.unwrap_or_else(|| {
            used(memory);
            let stream = memory.lend(kind);
            lent.borrow_mut().push(Lent { memory, kind, stream });
            stream
        })
    });
    match lent {
        Ok(stream) => f(stream),
        // The thread is ending.
        Err(_) => {
            let lent = Lent { memory, kind, stream: memory.lend(kind) };
            f(lent.stream)
        }
    }
}

/// Waits for a step that was given to a device, if the environment asks for it by `MS_DEVICE_SYNC`.
///
/// # Errors
/// As [`Streams::wait`].
pub fn sync_step(memory: &dyn Memory, fence: Fence) -> Result<()> {
    match DEVICE_SYNC.value() {
        Some(true) => memory.wait(fence),
        _ => Ok(()),
    }
}

/// The devices to which the process gave work.
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
        // SAFETY: the function takes nothing, does not unwind, and is the process' own, which is never unloaded.
        // Without room for it, nothing is reported.
        let _registered = unsafe { atexit(report_errors) };
    });
}

/// Waits for all work that was given to devices.
///
/// # Errors
/// The first error of the calling thread's work that no wait has returned. Others remain for later waits, and those of
/// other threads for their waits.
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
    /// Registers a function that is called when the process exits.
    fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
}

/// Warns of errors that nobody has fetched.
extern "C" fn report_errors() {
    let report = || {
        for memory in used_devices() {
            while let Err(error) = memory.synchronize(None) {
                let error = error.within("work on a device for which nobody waited");
                eprintln!("{}", error.as_warning());
            }
        }
    };
    // The thread that exits has no thread-locals any more, which running work may need.
    let reported = catch_unwind(|| std::thread::Builder::new().spawn(report).map(|it| it.join()));
    drop(reported);
}
