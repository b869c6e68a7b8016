//! Running plans: the [`Backend`] trait and what backends on the host share.

mod backend;

pub use backend::{Backend, BackendEntry, Executable, KernelCode};
