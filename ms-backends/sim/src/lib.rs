//! Simulates devices with separate memory on any machine, so that programs for such devices can be tested without one.
//!
//! Device addresses point into a range that the host cannot access, and the bytes are in another range. Host code that
//! dereferences a device address causes a fault.
//!
//! Work is queued on streams, and nothing runs before the host waits. Then it runs on the real bytes. The order is
//! random within the limits of the fences, and `MS_SIM_SEED` determines it. So a missing wait shows as a wrong result.
//! Behind a failure some work runs and some does not, which the seed determines as well.
//!
//! [`Simulation`] counts transfers, waits and memory. It makes chosen calls fail, or chosen steps when they run. Plans
//! are issued step by step. Each step is such a call, and intermediate values are in the memory of the device. What an
//! executable submits is captured, and replayed when the same steps are issued on the same addresses.
//!
//! There are two kinds of devices. `sim` runs kernels, as a GPU does: its target differs from that of a processor
//! wherever a target permits. `simops` runs ops only, as engines do that compile whole graphs of ops. In strict
//! precision both have the bits of every other device.
//!
//! There are [`DEVICES`] devices of each kind, `sim:0` and so on. A program links the crate with `use ms_sim as _;`. It
//! selects a device with `MS_DEVICE_TARGET=sim`, `Context::device_target` or `Tensor::to`.
//!
//! Modules in order:
//!
//! - [`scheduler`] has streams, failures and counters; `blocks` and `memory` have the memory of a device.
//! - `reference` runs steps on the host by their specifications; `target` describes the devices to lowering.
//! - `kernel` has kernels on device addresses, and `submission` has steps that are submitted together.
//! - `capture` keeps what was submitted, `forks` queues it on streams, and `driver` collects steps.
//! - `step` runs single ops, and `backend` compiles.

mod backend;
mod blocks;
mod capture;
mod driver;
mod forks;
mod kernel;
mod memory;
mod reference;
pub mod scheduler;
mod step;
mod submission;
mod target;

pub use backend::{DEVICES, SimBackend};
pub use scheduler::{Counts, Simulation};
