//! The compiler of `ms`: tensors, graphs, operators, tracing, transforms, optimisation,
//! lowering and execution. Nothing here knows a device.
//!
//! Modules stand in the order below, and each imports only what stands before it.

#![cfg_attr(ms_sanitize, feature(sanitize))]

pub mod environment;
pub mod error;
pub mod stored;
pub mod tensor;

pub mod ir;

pub mod ops;

pub mod trace;

pub mod transform;

pub mod effects;

pub mod optimize;

pub mod lower;

pub mod exec;

pub mod session;

pub use error::{Code, Error, Result, catch};
pub use ops::random;
pub use tensor::{DType, Parameter, Tensor, synchronize};
