//! Tracks the library function that the user called, which errors of ops inside it name first.

use super::Error;
use std::cell::Cell;

thread_local! {
    /// The outermost active library function.
    static CALLED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// A guard: the function is active until it is dropped.
pub struct Called {
    outermost: bool,
}

/// Begins a function that consists of ops, so that their errors are its errors. If such functions call each other, the
/// outermost is named.
#[inline]
pub fn called(name: &'static str) -> Called {
    let outermost = CALLED.get().is_none();
    if outermost {
        CALLED.set(Some(name));
    }
    Called { outermost }
}

impl Drop for Called {
    #[inline]
    fn drop(&mut self) {
        if self.outermost {
            CALLED.set(None);
        }
    }
}

/// Returns the outermost active function, for ops that are recorded and fail later.
#[doc(hidden)]
pub fn active_function() -> Option<&'static str> {
    CALLED.get()
}

impl Error {
    /// Adds the active function before the op.
    #[doc(hidden)]
    pub fn in_called(self) -> Self {
        self.of_function(CALLED.get())
    }

    /// Adds the library function that applied the op, if there is one, before the op.
    #[doc(hidden)]
    pub fn of_function(mut self, name: Option<&str>) -> Self {
        let Some(name) = name else { return self };
        let report = &mut *self.0;
        if let Some(inner) = report.op.replace(name.to_owned()).filter(|it| it != name) {
            report.message = format!("`{inner}`: {}", report.message);
        }
        self
    }
}
