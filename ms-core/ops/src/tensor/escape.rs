//! Traced values outside the trace that makes them, and handles outside the region that they
//! belong to.
//!
//! Both arms of a traced branch run, and the body of a traced loop runs once. Their changes of
//! variables that the code names are carried to the code after them. Changes of state that no name
//! shows (a trait object, a static, a struct with interior mutability) are not detected, and remain
//! when the region ends. So each clone of a tensor is stamped with the region in which it is made,
//! and a tracer reports handles whose region is complete.

use super::tensor::{Tensor, Traced};
use crate::error::{Code, Error};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// Numbers of the traces under construction, each with its thread.
static LIVE: Mutex<BTreeMap<u64, ThreadId>> = Mutex::new(BTreeMap::new());

/// A trace under construction on this thread, until it is dropped.
pub struct LiveTrace(u64);

impl LiveTrace {
    /// Begins the trace of this number.
    pub fn begin(trace: u64) -> Self {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(trace, thread::current().id());
        Self(trace)
    }

    /// Returns the number of the region.
    pub fn number(&self) -> u64 {
        self.0
    }
}

impl Drop for LiveTrace {
    fn drop(&mut self) {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

thread_local! {
    /// The innermost region of control flow that is open on this thread; 0 for none.
    static SCOPE: Cell<u32> = const { Cell::new(0) };
    /// All that are open, outermost first.
    static OPEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// The innermost region that is open; 0 for none.
#[inline]
pub(super) fn scope() -> u32 {
    SCOPE.get()
}

/// The stamp of a clone of a handle with this stamp: that of the open region, unless the handle's
/// own is complete. A clone of a tensor that was left behind counts as left behind as well.
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

/// A region of control flow begins on this thread, or resumes.
pub fn open_scope(region: u32) {
    SCOPE.set(region);
    OPEN.with_borrow_mut(|it| it.push(region));
}

/// Ends or suspends a region and the regions inside it.
pub fn close_scope(region: u32) {
    OPEN.with_borrow_mut(|it| {
        if let Some(at) = it.iter().rposition(|it| *it == region) {
            it.truncate(at);
        }
        SCOPE.set(it.last().copied().unwrap_or(0));
    });
}

/// Runs `f` outside of all regions: it traces separately, or not at all.
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

/// The error of using a handle of a completed region; `what` names it.
pub fn left_behind(what: &str, tensor: &Tensor) -> Error {
    let message =
        format!("{what} that a branch or a loop left in a place its graph does not see is used outside of it");
    let help = "make it the value of the branch or loop, or assign it to a `let mut` variable, a field or a `&mut` that \
                is named there; what changes in statics, cells and trait objects is not seen";
    Error::new(Code::Escaped, message).with_operands([tensor.ty().to_string()]).help(help)
}

/// The error of using a traced value here. The trace of the value is complete, is not the
/// current one, or is under construction on another thread.
pub fn escaped(traced: &Traced) -> Error {
    let thread = LIVE.lock().unwrap_or_else(PoisonError::into_inner).get(&traced.trace).copied();
    let error = if thread.is_some_and(|it| it != thread::current().id()) {
        Error::new(Code::Thread, "a traced value is used on another thread than the one that traces")
            .help("trace on one thread: compute on the tensors here, and start threads outside the compiled function")
    } else {
        Error::new(Code::Escaped, "a traced value is used outside the function that made it")
            .help("return it from that function, or pass it as an argument")
    };
    error.with_operands([traced.ty.to_string()])
}
