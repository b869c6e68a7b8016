//! Warnings: reports of code that works, but should be changed.

use super::Error;
use std::cell::RefCell;

thread_local! {
    /// The collectors of warnings of this thread, which replace the terminal, innermost last.
    static COLLECTED: RefCell<Vec<Vec<Error>>> = const { RefCell::new(Vec::new()) };
}

/// Prints `warning` to the terminal, or passes it to the innermost [`collect_warnings`] of this
/// thread.
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

/// Runs `f`; returns its result with the warnings of this thread, which are not printed.
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
