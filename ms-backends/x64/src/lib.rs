//! Code for x86-64 processors: kernels as machine code or interpreted, GEMM, and the thread pool. Other processors run
//! the interpreter.
//!
//! Modules in order: [`Isa`] is detected, [`codegen`] and [`interp`] give [`KernelCode`], [`code`] holds machine code
//! in memory, [`threads`] runs tasks and partitions calls, [`loaded`] interns kernels, [`gemm`] multiplies. Each
//! imports only what stands before it.
//!
//! **Invariant:** this crate depends on `ms-ir` only: it knows no op, no `Tensor`, no plan and no `Driver`. Test:
//! `crates_depend_downwards` in `tests/architecture/main.rs`.
//!
//! **Invariant:** a kernel has equal bits on the interpreter and on each instruction set, on one thread and on several.
//! Test: `all_files` in `tests/kernels.rs`.
//!
//! **Invariant:** no product depends on the number of threads. Test: `results_do_not_depend_on_threads` in
//! `src/gemm/engine/tests/threads.rs`.

pub mod code;
pub mod codegen;
pub mod gemm;
pub mod interp;
pub mod loaded;
#[doc(hidden)]
pub mod testing;
pub mod threads;

mod isa;
mod kernel;

pub use isa::{Isa, Vectors, double_pumps_512};
pub use kernel::{KernelCode, Partition, hash};

/// The hash of the sources of this crate, which is a part of the keys of the compile cache.
pub const SOURCES: &str = env!("MS_X64_SOURCES");

inventory::submit! { ms_ir::error::LibrarySource::Compiler(file!()) }
