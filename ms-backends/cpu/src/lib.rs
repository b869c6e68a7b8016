//! The CPU backend: kernels to machine code, the interpreter, products, threads.

pub mod interp;
