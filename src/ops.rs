//! Operators on tensors, and control flow as functions.

pub use ms_core::ops::*;
pub use ms_core::trace::{cond, fori_loop, scan, switch, while_loop};
