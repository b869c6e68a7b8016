//! Helpers for training loops: counters, metrics and progress.

mod counter;
mod metrics;
mod progress;

pub use counter::Counter;
pub use metrics::{
    Accuracy, Auc, Average, BleuScore, ConfusionMatrix, F1, MAE, MSE, Mean, Metric, Perplexity, Precision, Recall,
    TopKCategoricalAccuracy, accuracy,
};
pub use progress::Progress;
