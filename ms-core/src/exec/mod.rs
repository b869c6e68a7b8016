//! Execution of graphs and of single ops: the [`Backend`] trait, and code that backends share.

mod backend;
mod host;
mod product;
mod program;
mod reference;
mod waits;

pub use backend::{Backend, BackendEntry, Executable, StepCode, backend, host_backend, unavailable};
pub use host::{Host, HostExecutable, Inputs, KernelCode, PreparedRun, stored_program};
pub use product::{BatchDim, MatrixProduct};
pub use program::{Artifact, CompileOptions, Interface, MachineCode, PlanProgram, PlanReport, Program, StoredProgram};
pub use reference::reference;
pub use waits::Waits;
