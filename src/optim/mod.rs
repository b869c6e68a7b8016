//! Optimisers, learning-rate schedules and gradient transforms.
//!
//! The state and hyperparameters of an optimiser are in slots. Compiled training steps read and write them like
//! parameters, and checkpoints include them. The algorithms are [rules](UpdateRule) for one parameter. Clipping,
//! schedules, averages and accumulation are [optimisers](Optimizer) that wrap other optimisers.

mod accumulation;
mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adam_weight_decay;
mod average;
mod clip;
mod groups;
mod hook;
mod hyperparameter;
mod lamb;
mod lbfgs;
mod lion;
mod master;
pub(crate) mod optimizer;
mod plateau;
mod rms_prop;
mod rule;
mod schedule;
mod sgd;
mod state;

pub use accumulation::Accumulated;
pub use adadelta::Adadelta;
pub use adafactor::Adafactor;
pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adam_weight_decay::AdamWeightDecay;
pub use average::Averaged;
pub use clip::{Clip, Clipped};
pub use groups::ParameterGroups;
pub use hook::Hooked;
pub use hyperparameter::{Hyperparameter, LearningRate, Term, WeightDecay};
pub use lamb::Lamb;
pub use lbfgs::LBFGS;
pub use lion::Lion;
pub use master::MasterWeights;
pub use optimizer::Optimizer;
pub use plateau::ReduceOnPlateau;
pub use rms_prop::RMSProp;
pub use rule::UpdateRule;
pub use schedule::{
    Constant, CosineDecay, ExponentialDecay, MultiStepDecay, OneCycle, PolynomialDecay, Schedule, ScheduleFn,
    Scheduled, StepDecay, WarmUp, schedule_fn,
};
pub use sgd::{Momentum, SGD};
pub use state::{State, averaged};
