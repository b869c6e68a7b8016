//! Executes graphs and single ops: the [`Backend`] trait, and code that backends share.

mod backend;
mod driver;
mod program;
mod reference;
mod roofline;
mod runner;
mod waits;
mod watch;
mod work;

pub use backend::{Backend, BackendEntry, Donation, Executable, backend, host_backend, unavailable};
pub use driver::{ArrayLayout, Check, Driver, EpilogueCode, LibraryCall, LoopCondition, Prepared, StepCall, refusal};
pub use ms_ir::{KernelLaunch, KernelView, StepCode, StepOperand, TileArguments};
pub use program::{
    Artifact, CompileOptions, Family, Interface, MachineCode, PlanProgram, PlanReport, Program, StoredProgram,
};
pub use reference::reference;
pub use roofline::{Exceeded, Roof};
pub use runner::{PlanExecutable, stored_program};
pub use waits::Waits;
pub use watch::{KernelCopy, Record, Records, count_reference, is_watched, locate, record_op, records_so_far, watched};
pub use work::{Work, op_name};
