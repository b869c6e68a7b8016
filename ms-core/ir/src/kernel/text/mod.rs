//! Implements the text form of kernels: see [`kernel`](super).

mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use parse::NamedKernel;
