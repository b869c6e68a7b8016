//! Model files: state dicts, checkpoints and exported functions.

pub(crate) mod archive;
pub(crate) mod bytes;
mod checkpoint;
mod ckpt;
mod convention;
mod exported;
mod load;
#[cfg(feature = "onnx")]
mod onnx;
mod paths;
mod pickle;
mod pytorch;
pub(crate) mod replace;
mod safetensors;
pub(crate) mod state_dict;
mod stateful;
#[doc(hidden)]
pub mod untrusted;

pub use checkpoint::{load_checkpoint, save_checkpoint};
pub use convention::Convention;
pub use exported::{ExportOptions, ExportedFunction, export};
pub use load::{LoadOptions, LoadReport, Misshaped};
pub use state_dict::StateDict;
pub use stateful::Stateful;
