//! Map-style datasets, transforms and tokenizers, and the [loader](DataLoader) that iterates over datasets.

mod batched;
mod collate;
pub(crate) mod csv;
mod dataset;
mod epoch;
mod file;
#[cfg(feature = "image")]
mod image_folder;
pub(crate) mod images;
mod loader;
mod map;
pub(crate) mod npy;
#[cfg(feature = "tokenizers")]
pub(crate) mod pretrained;
mod sampler;
mod slice;
mod tensors;
mod text;
mod tokenizer;
mod transforms;

pub use batched::Batched;
pub use csv::{CsvOptions, Table, read_csv};
pub use dataset::Dataset;
pub use epoch::Epoch;
#[cfg(feature = "image")]
pub use image_folder::{ImageFolder, resize};
pub use images::{LabeledImages, Usage, cifar10, cifar100, mnist, read_idx};
pub use loader::{DataLoader, Samples};
pub use map::{Map, TryMap};
pub use npy::{read_npy, read_npz, write_npy, write_npz};
#[cfg(feature = "tokenizers")]
pub use pretrained::PretrainedTokenizer;
pub use sampler::{DistributedSampler, RandomSampler, Sampled, Sampler, SubsetSampler, WeightedRandomSampler};
pub use slice::{Repeat, Slice, Zip};
pub use tensors::TensorDataset;
pub use text::TextFileDataset;
pub use tokenizer::{ByteTokenizer, CharTokenizer, Tokenizer};
pub use transforms::{center_crop, normalize, random_crop, random_horizontal_flip, random_vertical_flip};

use ms_core::Tensor;

/// A batch for supervised training: inputs and targets, along the first axis.
///
/// ```
/// use ms::prelude::*;
/// let batch: Batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
/// let loss = SGD::new(0.1).step(&nn::Dense::new(3, 1), &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
/// assert!(loss.item::<f32>() >= 0.0);
/// ```
pub type Batch = (Tensor, Tensor);
