//! Re-exports the modules of the compiler; not part of the public API.
//!
//! Error messages of rustc name a trait by its short path only where a path to it is public and documented.

pub use ms_core::{effects, environment, exec, ir, lower, optimize, session, stored, target, trace, transform};
