//! Observes calls of cells whose bodies run op by op.

use ms_ops::tensor::Tensor;
use ms_trace::trace::{Sink, cell_path};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Observes the calls of cells on a thread; see [`observe_calls`].
pub trait CallObserver {
    /// Called when the call of the cell at a path begins.
    fn begins(&self, path: &str);

    /// Called when the call returns these tensors.
    fn ends(&self, path: &str, results: &[Tensor]);
}

/// An observer, and a number for its paths that differs from every trace's.
type Observation = (u64, Rc<dyn CallObserver>);

thread_local! {
    static CURRENT: RefCell<Option<Observation>> = const { RefCell::new(None) };
}

/// Runs `f`, and reports to an observer the calls of cells on this thread that run op by op. These are the calls
/// outside of traces, while `jit` of the context is off. The first cell that is called is the root of all paths.
pub fn observe_calls<R>(observer: Rc<dyn CallObserver>, f: impl FnOnce() -> R) -> R {
    static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);
    struct Restore(Option<Observation>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let number = NEXT.fetch_sub(1, Ordering::Relaxed);
    let _restore = Restore(CURRENT.replace(Some((number, observer))));
    f()
}

/// The observer of a call of a cell, and the path of the cell.
pub(super) struct Observed {
    observer: Rc<dyn CallObserver>,
    pub path: Rc<str>,
}

impl Observed {
    /// Returns the observer of the call; `sign` visits its arguments.
    pub fn of(sign: &dyn Fn(&mut Sink<'_>)) -> Option<Self> {
        let (number, observer) = CURRENT.with_borrow(Clone::clone)?;
        let path = cell_path(number, sign)?;
        Some(Self { observer, path })
    }

    pub fn begins(&self) {
        self.observer.begins(&self.path);
    }

    pub fn ends(&self, results: &[Tensor]) {
        self.observer.ends(&self.path, results);
    }
}
