//! Optimisers.
//!
//! The state of an optimiser is in parameters, one set for each parameter that it trains, so that a
//! compiled training step reads and writes it like any other parameter.

mod adadelta;
mod adagrad;
mod adam;
mod adam_weight_decay;
mod rms_prop;
mod sgd;
mod state;
mod step;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adam_weight_decay::AdamWeightDecay;
pub use rms_prop::RMSProp;
pub use sgd::{Momentum, SGD};
pub use step::Optimizer;
