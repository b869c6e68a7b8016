//! `ms`: one Rust source, run eagerly or compiled.
pub use ms_core::*;
