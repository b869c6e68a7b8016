//! Running plans: the [`Backend`] trait and what backends on the host share.

mod backend;
mod reference;

pub use backend::{Backend, BackendEntry, Executable, KernelCode, backend};
pub use reference::reference;
