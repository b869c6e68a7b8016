//! Optimisers.
//!
//! An optimiser keeps its state in parameters, one set for each parameter that it trains, so that
//! a compiled training step reads and writes them like any other.

mod adam;
mod sgd;
mod state;
mod step;

pub use adam::Adam;
pub use sgd::Sgd;
pub use step::Optimizer;
