//! The CPU backend: its target, its driver, and the ops that it runs natively.
//!
//! Modules in order: `target` describes the processor to lowering, `library` has loops of ops, `backend` compiles plans
//! and runs their steps. Each imports only what stands before it. The code of kernels and products is [`ms_x64`]'s.
//!
//! **Invariant:** this crate stands on `ms-compile`, not on the runtime. It registers itself through `inventory`. Test:
//! `crates_depend_downwards` in `tests/architecture/main.rs`.
//!
//! **Invariant:** no result depends on the number of threads. Test: `results_do_not_depend_on_threads` in
//! `tests/threads.rs`.

mod backend;
mod library;
mod target;

pub use backend::CpuBackend;
pub use backend::driver::{CpuContraction, CpuDriver, CpuLibraryStep};
#[doc(hidden)]
pub use library::{queries, without};
pub use ms_x64::{Isa, KernelCode, threads};
pub use target::TARGET;

inventory::submit! { ms_ir::error::LibrarySource::Compiler(file!()) }
