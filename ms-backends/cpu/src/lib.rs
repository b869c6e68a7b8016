//! The CPU backend: code generation, interpreter, GEMM, op library and thread pool.

pub mod codegen;
pub mod interp;
#[doc(hidden)]
pub mod testing;
pub mod threads;

mod artifact;
mod backend;
mod code;
mod cut;
mod driver;
mod gemm;
mod isa;
mod kernel;
mod library;
mod loaded;
mod long_calls;
mod parallel;
mod perf;
mod roof;
mod split;
mod step;
mod target;

pub use backend::CpuBackend;
pub use driver::CpuDriver;
pub use isa::Isa;
pub use kernel::KernelCode;
pub use target::TARGET;
