//! Running plans: the [`Backend`] trait and what backends on the host share.

mod backend;
mod host;
mod product;
mod reference;

pub use backend::{Backend, BackendEntry, Executable, KernelCode, backend};
pub use host::{Host, HostExecutable};
pub use product::{BatchDim, MatrixProduct};
pub use reference::reference;
