//! Helpers for training loops: metrics and progress.

mod metrics;
mod progress;

pub use metrics::{Mean, accuracy};
pub use progress::Progress;
