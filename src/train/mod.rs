//! Helpers for training loops: counters, metrics and progress.

mod counter;
mod metrics;
mod progress;

pub use counter::Counter;
pub use metrics::{Mean, accuracy};
pub use progress::Progress;
