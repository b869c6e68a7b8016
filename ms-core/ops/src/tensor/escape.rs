//! Detects traced values that escape their trace, and handles that escape their region.
//!
//! Both arms of a traced branch run, and the body of a traced loop runs once. The trace carries their changes of named
//! variables to the code after them. It does not detect changes of unnamed state (a trait object, a static, a struct
//! with interior mutability). These remain when the region ends. So each clone of a tensor is stamped with the region
//! in which it is created, and a tracer reports handles of completed regions.

use super::scope::thread_of;
use super::traced::Traced;
use ms_ir::data::Type;
use ms_ir::error::{Code, Error};
use std::thread;

/// Returns the error of using a handle of a completed region, of a tensor of type `ty`; `what` names the handle.
pub fn leaked_from_region(what: &str, ty: &Type) -> Error {
    let message =
        format!("{what} that a branch or a loop left in a place its graph does not see is used outside of it");
    let help = "make it the value of the branch or loop, or assign it to a `let mut` variable, a field or a `&mut` that \
                is named there; what changes in statics, cells and trait objects is not seen";
    Error::new(Code::Escaped, message).with_operands([ty.to_string()]).help(help)
}

/// Returns the error of using a traced value here. Its trace is complete, is not this one, or is under construction on
/// another thread.
pub fn escaped(traced: &Traced) -> Error {
    let thread = thread_of(traced.trace);
    let error = if thread.is_some_and(|it| it != thread::current().id()) {
        Error::new(Code::Thread, "a traced value is used on another thread than the one that traces")
            .help("trace on one thread: compute on the tensors here, and start threads outside the compiled function")
    } else {
        Error::new(Code::Escaped, "a traced value is used outside the function that made it")
            .help("return it from that function, or pass it as an argument")
    };
    error.with_operands([traced.ty.to_string()])
}
