//! Input pipelines: data sets in memory, shuffled batches.

mod batches;
mod csv;
mod sampler;

pub use batches::{Batch, Batches, Dataset};
pub use csv::read_csv;
pub use sampler::Sampler;
