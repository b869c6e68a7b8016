//! A simulated device, on every machine: what programs do on a device with memory of its own can be
//! tested without one.
//!
//! Its addresses point into a range that the host cannot access, and the bytes are in another one: code
//! of the host that follows an address of the device is stopped by the processor. Work is queued on streams, and
//! nothing runs before the host waits: then it runs on the CPU backend, on the real bytes, in a random order that
//! fences allow, which `MS_SIM_SEED` determines. So a missing wait shows as a wrong result. [`Simulation`] counts
//! transfers, waits and memory, and makes chosen calls fail, or chosen steps when they run. Plans are issued step by
//! step, each of which is such a call, and their intermediate values are in the memory of the device.
//!
//! There are [`DEVICES`] devices, `sim:0` and so on. A program links the crate with `use ms_sim as _;`,
//! and selects a device with `MS_DEVICE_TARGET=sim`, `Context::device_target` or `Tensor::to`.

mod backend;
mod driver;
mod memory;
mod queue;
mod simulation;

pub use backend::{DEVICES, SimBackend};
pub use simulation::{Counts, Simulation};
