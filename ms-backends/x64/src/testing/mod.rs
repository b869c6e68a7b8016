//! Runs kernels on operands with guards, for tests of this backend and others, and for the fuzz target.

mod call;
mod file;
mod fuzz;

pub use call::{Axis, Call, Form, LANES, element};
pub use file::{File, Results};
pub use fuzz::kernel;
