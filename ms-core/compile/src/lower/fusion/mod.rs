//! Fusion: groups of ops over one domain, and the kernels that compute them.

mod arguments;
pub(in crate::lower) mod body;
pub(in crate::lower) mod domain;
pub(in crate::lower) mod emit;
pub(in crate::lower) mod emitted;
pub(in crate::lower) mod epilogue;
pub(in crate::lower) mod gather;
pub(in crate::lower) mod group;
pub(in crate::lower) mod iteration;
pub mod nest;
pub(in crate::lower) mod repeat;
pub(in crate::lower) mod simplify;
pub(in crate::lower) mod slices;
pub(in crate::lower) mod stage;
pub(in crate::lower) mod structure;
