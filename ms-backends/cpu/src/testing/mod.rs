//! Kernels on operands with guards around them: what tests, of this backend and of others, and the
//! fuzz target share.

mod call;
mod file;
mod fuzz;

pub use call::{Call, LANES, element};
pub use file::{File, Results};
pub use fuzz::kernel;
