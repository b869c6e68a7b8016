//! The traces under construction, and the regions of control flow that are open on a thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// Numbers of the traces under construction, each with its thread.
static LIVE: Mutex<BTreeMap<u64, ThreadId>> = Mutex::new(BTreeMap::new());

/// A trace under construction on this thread, until it is dropped.
pub struct LiveTrace(u64);

impl LiveTrace {
    /// Begins the trace with this number.
    pub fn begin(trace: u64) -> Self {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(trace, thread::current().id());
        Self(trace)
    }

    /// Returns the number of the trace.
    pub fn number(&self) -> u64 {
        self.0
    }
}

/// Returns the thread that constructs a trace; `None` if the trace is complete.
pub(super) fn thread_of(trace: u64) -> Option<ThreadId> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).get(&trace).copied()
}

impl Drop for LiveTrace {
    fn drop(&mut self) {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

thread_local! {
    /// The innermost region of control flow that is open on this thread; 0 for none.
    static SCOPE: Cell<u32> = const { Cell::new(0) };
    /// All open regions, outermost first.
    static OPEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Returns the innermost open region; 0 for none.
#[inline]
pub(super) fn scope() -> u32 {
    SCOPE.get()
}

/// Returns the stamp of a clone of a handle with this stamp: the open region, unless the handle's own region is
/// complete. A clone of a leaked tensor counts as leaked as well.
#[inline]
pub(super) fn scoped(stamp: u32) -> u32 {
    let scope = SCOPE.get();
    if stamp == 0 || stamp == scope { scope } else { outer(stamp, scope) }
}

#[cold]
fn outer(stamp: u32, scope: u32) -> u32 {
    let is_open = OPEN.try_with(|it| it.borrow().contains(&stamp)).unwrap_or(false);
    if is_open { scope } else { stamp }
}

/// Begins or resumes a region of control flow on this thread.
pub fn open_scope(region: u32) {
    SCOPE.set(region);
    OPEN.with_borrow_mut(|it| it.push(region));
}

/// Ends or suspends a region, with the regions inside of it.
pub fn close_scope(region: u32) {
    OPEN.with_borrow_mut(|it| {
        if let Some(at) = it.iter().rposition(|it| *it == region) {
            it.truncate(at);
        }
        SCOPE.set(it.last().copied().unwrap_or(0));
    });
}

/// Runs `f` outside of all regions, for code that traces separately or not at all.
pub fn outside_scopes<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(Vec<u32>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPE.set(self.0.last().copied().unwrap_or(0));
            OPEN.replace(std::mem::take(&mut self.0));
        }
    }
    let _restore = Restore(OPEN.take());
    SCOPE.set(0);
    f()
}
