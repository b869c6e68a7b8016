//! Execution of plans: the [`Backend`] trait, and code that host backends share.

mod backend;
mod host;
mod product;
mod reference;
mod waits;

pub use backend::{
    Artifact, Backend, BackendEntry, Executable, MachineCode, StepCode, backend, host_backend, unavailable,
};
pub use host::{Host, HostExecutable, Inputs, KernelCode, PreparedRun};
pub use product::{BatchDim, MatrixProduct};
pub use reference::reference;
pub use waits::Waits;
