//! Warnings: reports of what works, and should be done otherwise.

use super::Error;
use std::cell::RefCell;

thread_local! {
    /// Where warnings of this thread go instead of the terminal, innermost last.
    static COLLECTED: RefCell<Vec<Vec<Error>>> = const { RefCell::new(Vec::new()) };
}

/// Prints `warning` to the terminal, or hands it to the innermost [`collect_warnings`] of this
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
        eprintln!("{}", warning.as_warning());
    }
}

/// Runs `f`, and gives its result with the warnings of this thread, which are not printed.
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
