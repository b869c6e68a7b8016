//! The modules of the compiler. No part of the interface: they stand here because rustc calls a trait by its
//! short name, in what it says of a user's program, only where a path to it is public and documented.

pub use ms_core::{effects, environment, exec, ir, lower, optimize, session, stored, trace, transform};
