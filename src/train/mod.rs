//! What a training loop needs around the step: metrics and progress.

mod metrics;
mod progress;

pub use metrics::{Mean, accuracy};
pub use progress::Progress;
