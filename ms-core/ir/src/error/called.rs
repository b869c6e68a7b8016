//! The function of the library that the user called, which errors of the ops inside name first.

use super::Error;
use std::cell::Cell;

thread_local! {
    /// The outermost active function.
    static CALLED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// A function is active until this is dropped.
pub struct Called {
    outermost: bool,
}

/// Begins a function that is made of ops: their errors are its errors. Of functions that call each other, the
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

/// The outermost active function, for ops that are recorded and fail later.
#[doc(hidden)]
pub fn active_function() -> Option<&'static str> {
    CALLED.get()
}

impl Error {
    /// Names the active function before the op.
    #[doc(hidden)]
    pub fn in_called(self) -> Self {
        self.of_function(CALLED.get())
    }

    /// Names the function of the library that applied the op, if there is one, before the op.
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
