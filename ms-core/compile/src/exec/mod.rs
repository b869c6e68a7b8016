//! Executes graphs and single ops: the [`Backend`] trait, and code that backends share.

mod backend;
mod driver;
mod program;
mod reference;
mod roof;
mod runner;
mod waits;
mod watch;
mod work;

pub use backend::{Backend, BackendEntry, Donation, Executable, StepCode, backend, host_backend, unavailable};
pub use driver::{
    Accepted, Check, ContractionOperand, Driver, EpilogueCall, EpilogueWords, KernelLaunch, KernelView, LibraryCall,
    MemoryView,
};
pub use program::{Artifact, CompileOptions, Interface, MachineCode, PlanProgram, PlanReport, Program, StoredProgram};
pub use reference::reference;
pub use roof::{Exceeded, Roof};
pub use runner::{PlanExecutable, stored_program};
pub use waits::Waits;
pub use watch::{KernelCopy, Record, Records, count_reference, is_watched, locate, record_op, records_so_far, watched};
pub use work::{Work, op_name};
