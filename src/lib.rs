//! `ms`: one Rust source, run eagerly or compiled.
pub use ms_core::*;
// Linked for the backend that it submits.
use ms_cpu as _;
