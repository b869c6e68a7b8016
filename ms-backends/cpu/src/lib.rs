//! The CPU backend: code generation, interpreter, GEMM, op library and thread pool.

pub mod codegen;
pub mod interp;
#[doc(hidden)]
pub mod testing;
pub mod threads;

mod backend;
mod code;
mod gemm;
mod isa;
mod kernel;
mod library;
mod target;

pub use backend::CpuBackend;
pub use backend::driver::CpuDriver;
pub use isa::Isa;
pub use kernel::KernelCode;
pub use target::TARGET;
