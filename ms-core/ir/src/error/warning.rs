//! Reports warnings: code that works, but should be changed.

use super::{Code, Error};
use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

thread_local! {
    /// The warning collectors of this thread, innermost last. They replace the terminal.
    static COLLECTED: RefCell<Vec<Vec<Error>>> = const { RefCell::new(Vec::new()) };
}

/// Prints `warning` to the terminal, or passes it to the innermost [`collect_warnings`] of this
/// thread.
///
/// ```
/// use ms_core::{Code, Error, error::{collect_warnings, warn}};
/// let (result, warnings) = collect_warnings(|| {
///     warn(Error::new(Code::Cache, "the folder is read-only"));
///     7
/// });
/// assert_eq!((result, warnings.len(), warnings[0].code()), (7, 1, Code::Cache));
/// ```
pub fn warn(warning: Error) {
    let left = COLLECTED.with(|it| match it.borrow_mut().last_mut() {
        Some(collected) => {
            collected.push(warning);
            None
        }
        None => Some(warning),
    });
    if let Some(warning) = left {
        eprintln!("{}\n   = for more information, run `ms explain {}`", warning.as_warning(), warning.code());
    }
}

/// Warns like [`warn`](fn@warn), once in this process for each code and source location.
#[doc(hidden)]
pub fn warn_once(code: Code, location: Option<&'static Location<'static>>, make: impl FnOnce() -> Error) {
    type Line = (Code, Option<Location<'static>>);
    /// The codes and source locations of warnings that were printed.
    static REPORTED: LazyLock<Mutex<HashSet<Line>>> = LazyLock::new(Mutex::default);
    if REPORTED.lock().unwrap_or_else(PoisonError::into_inner).insert((code, location.copied())) {
        let warning = make();
        warn(match location {
            Some(location) => warning.at(location),
            None => warning,
        });
    }
}

/// Runs `f` and returns its result with the warnings of this thread, which are not printed.
///
/// See the example of [`warn`](fn@warn).
pub fn collect_warnings<R>(f: impl FnOnce() -> R) -> (R, Vec<Error>) {
    /// Ends the collection, also when `f` unwinds.
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            COLLECTED.with(|it| it.borrow_mut().pop());
        }
    }
    COLLECTED.with(|it| it.borrow_mut().push(Vec::new()));
    let _pop = Pop;
    let result = f();
    let collected = COLLECTED.with(|it| it.borrow_mut().last_mut().map(std::mem::take));
    (result, collected.unwrap_or_default())
}
