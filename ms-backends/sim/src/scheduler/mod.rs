//! The scheduler of simulated devices with queues: streams with error words, failures to inject, and counters.
//!
//! The module knows no memory, no plans and no driver. Work is a closure, so any simulation of a device can share the
//! module: a backend, or a vendor's driver that is simulated below its interface.
//!
//! - [`Queue`] has the streams. It runs their work in a random order that fences allow. A failed step sets the error
//!   word of its stream. The word spreads to dependent streams, and the first wait returns the error.
//! - [`Simulation`] makes chosen calls and steps fail, and counts.

mod queue;
mod simulation;

pub use queue::{Peer, Queue, Random, Work};
pub use simulation::{Counts, Simulation};
