//! Simulates a device with separate memory on any machine, so that programs for such devices can be tested without one.
//!
//! Device addresses point into a range that the host cannot access, and the bytes are in another range. Host code that
//! dereferences a device address causes a fault.
//!
//! Work is queued on streams, and nothing runs before the host waits. Then it runs on the CPU backend, on the real
//! bytes. The order is random within the limits of the fences, and `MS_SIM_SEED` determines it. So a missing wait shows
//! as a wrong result. Behind a failure some work runs and some does not, which the seed determines as well.
//!
//! [`Simulation`] counts transfers, waits and memory. It makes chosen calls fail, or chosen steps when they run. Plans
//! are issued step by step. Each step is such a call, and intermediate values are in the memory of the device.
//!
//! There are two kinds of devices. `sim` runs kernels, as a GPU does. `simops` runs ops only, each by its definition,
//! as engines do that compile whole graphs of ops. Definitions add the terms of products in f64, so products on
//! `simops` have other bits than elsewhere, also in strict precision.
//!
//! There are [`DEVICES`] devices of each kind, `sim:0` and so on. A program links the crate with `use ms_sim as _;`. It
//! selects a device with `MS_DEVICE_TARGET=sim`, `Context::device_target` or `Tensor::to`.

mod backend;
mod blocks;
mod driver;
mod memory;
mod ops;
pub mod scheduler;

pub use backend::{DEVICES, SimBackend};
pub use ops::SimOpsBackend;
pub use scheduler::{Counts, Simulation};
