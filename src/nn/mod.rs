//! Layers: cells with parameters, written with the public API.

mod activation;
mod batch_norm;
mod cell_list;
mod conv;
mod dense;
mod dropout;
mod embedding;
mod flatten;
pub mod init;
mod layer_norm;
mod loss;
mod pipeline;
mod pool;
mod sequential;

pub use activation::{Gelu, LogSoftmax, Relu, Sigmoid, Softmax, Tanh};
pub use batch_norm::BatchNorm;
pub use cell_list::{CellList, Selected};
pub use conv::Conv2d;
pub use dense::Dense;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use flatten::Flatten;
pub use layer_norm::LayerNorm;
pub use loss::{CrossEntropyLoss, MSELoss};
pub use pipeline::PipelineCell;
pub use pool::{AvgPool2d, MaxPool2d};
pub use sequential::Sequential;

#[doc(inline)]
pub use crate::sequential;
