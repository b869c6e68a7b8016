//! Training: models, callbacks, metrics, and helpers for custom training loops.

mod callback;
mod counter;
mod metrics;
mod model;
mod progress;

pub use callback::{
    Callback, EarlyStopping, EpochRecord, Goal, History, LambdaCallback, LearningRateScheduler, LossMonitor,
    ModelCheckpoint, ProgressMonitor, RunContext, Scores, Slots, SummaryCollector, SummaryWriter, TimeMonitor,
    TrainingPage,
};
pub use counter::Counter;
pub use metrics::{
    Accuracy, Auc, Average, BleuScore, ConfusionMatrix, F1, MAE, MSE, Mean, Metric, Perplexity, Precision, Recall,
    TopKCategoricalAccuracy, accuracy,
};
pub use model::Model;
pub use progress::Progress;
