//! Registers all compiled functions by their paths.

use super::JitFn;
use ms_trace::trace::TypeKey;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{LazyLock, Mutex, PoisonError};

type Functions = FxHashMap<&'static str, SmallVec<[&'static JitFn; 1]>>;

static FUNCTIONS: LazyLock<Mutex<Functions>> = LazyLock::new(Mutex::default);

/// Registers a function with a compiled version under its path.
pub(in crate::session) fn register(path: &'static str, function: &'static JitFn) {
    let mut functions = FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = functions.entry(path).or_default();
    if !known.iter().any(|it| std::ptr::eq(*it, function)) {
        known.push(function);
    }
}

/// Drops all compiled versions of `function`. Its next call traces it again, and rereads its host state: statics,
/// files, the environment.
///
/// `function` is the function itself: `ms::retrace(f)` for `#[jit] fn f`, `ms::retrace(Net::run)` for a method,
/// `ms::retrace(f)` for the argument of `ms::jit(f)`. Closures of one function are retraced together.
///
/// ```
/// use ms_core::{Tensor, ops, session, tensor};
/// use std::sync::atomic::{AtomicI64, Ordering};
/// static FACTOR: AtomicI64 = AtomicI64::new(2);
/// fn scaled(x: &Tensor) -> Tensor {
///     ops::mul(x, FACTOR.load(Ordering::Relaxed))
/// }
/// let run = || session::jit(scaled)(&tensor![3.0]).item::<f32>();
/// assert_eq!(run(), 6.0);
/// FACTOR.store(10, Ordering::Relaxed);
/// assert_eq!(run(), 6.0, "the graph has the first factor");
/// session::retrace(scaled);
/// assert_eq!(run(), 30.0);
/// ```
pub fn retrace<F>(function: F) {
    let _ = function;
    let path = TypeKey::of::<F>().path();
    let functions = FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = functions.get(path).cloned().unwrap_or_default();
    // Dropping may run user code, so the lock is released first.
    drop(functions);
    found.into_iter().for_each(JitFn::retrace);
}
