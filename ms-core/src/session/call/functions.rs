//! All compiled functions by their paths.

use super::JitFn;
use crate::trace::TypeKey;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{LazyLock, Mutex, PoisonError};

type Functions = FxHashMap<&'static str, SmallVec<[&'static JitFn; 1]>>;

static FUNCTIONS: LazyLock<Mutex<Functions>> = LazyLock::new(Mutex::default);

/// A function of that path has a compiled version.
pub(in crate::session) fn register(path: &'static str, function: &'static JitFn) {
    let mut functions = FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = functions.entry(path).or_default();
    if !known.iter().any(|it| std::ptr::eq(*it, function)) {
        known.push(function);
    }
}

/// Drops all compiled versions of `function`, so that its next call traces it again and reads anew
/// what it reads of the host: statics, files, the environment.
///
/// `function` is the function itself: `ms::retrace(f)` for `#[jit] fn f`, `ms::retrace(Net::run)`
/// for a method, `ms::retrace(f)` for what was given to `ms::jit(f)`. Closures of one function are
/// retraced together.
pub fn retrace<F>(function: F) {
    let _ = function;
    let path = TypeKey::of::<F>().path();
    let functions = FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = functions.get(path).cloned().unwrap_or_default();
    // What is dropped may run code of users.
    drop(functions);
    found.into_iter().for_each(JitFn::retrace);
}
