//! Attributes running out of memory inside an op to that op.

use super::{Error, Result, raise};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The payload that unwinds to the op that ran out of memory.
struct Exhausted(Error);

thread_local! {
    /// The number of active calls of [`in_op`].
    static OPS: Cell<usize> = const { Cell::new(0) };
}

/// Runs an op and reports running out of memory inside it (see [`OrExhausted`]) as its error.
///
/// # Errors
/// The errors of `f`, and [`Code::Memory`](super::Code::Memory).
pub fn in_op<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    OPS.set(OPS.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(f));
    OPS.set(OPS.get() - 1);
    result.unwrap_or_else(|payload| Err(exhausted(payload)))
}

/// Returns the error of the payload. Resumes unwinding with any other payload.
fn exhausted(payload: Box<dyn Any + Send>) -> Error {
    match payload.downcast::<Exhausted>() {
        Ok(it) => it.0,
        Err(payload) => resume_unwind(payload),
    }
}

/// Unwraps a `Result` for which running out of memory is the only error.
pub trait OrExhausted<T> {
    /// Returns the value. An error ends the active op, or is raised at the caller's location if there is none.
    fn or_exhausted(self) -> T;
}

impl<T> OrExhausted<T> for Result<T> {
    #[track_caller]
    #[inline]
    fn or_exhausted(self) -> T {
        match self {
            Ok(value) => value,
            Err(error) => unwind(error),
        }
    }
}

#[track_caller]
#[cold]
fn unwind(error: Error) -> ! {
    if OPS.get() == 0 {
        raise(error);
    }
    resume_unwind(Box::new(Exhausted(error)))
}

#[cfg(test)]
mod tests {
    use super::super::Code;
    use super::*;

    fn without_memory() -> Result<()> {
        Err(Error::new(Code::Memory, "none is left"))
    }

    #[test]
    fn memory_that_runs_out_is_an_error_of_the_innermost_op() {
        let outer = in_op(|| {
            let inner = in_op(|| {
                without_memory().or_exhausted();
                Ok(())
            });
            assert_eq!(inner.expect_err("memory ran out").code(), Code::Memory);
            Ok(1)
        });
        assert_eq!(outer.expect("only the inner op ended"), 1);
        let raised = crate::catch(|| without_memory().or_exhausted()).expect_err("no op is under way");
        assert_eq!(raised.code(), Code::Memory);
        assert!(raised.to_string().contains(file!()), "{raised}");
    }

    #[test]
    fn other_panics_pass() {
        let passed = catch_unwind(|| in_op::<()>(|| resume_unwind(Box::new("other"))));
        assert_eq!(passed.expect_err("it unwinds on").downcast_ref::<&str>(), Some(&"other"));
        assert_eq!(OPS.get(), 0);
    }
}
