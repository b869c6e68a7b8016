//! Model files.

mod checkpoint;
mod safetensors;

pub use checkpoint::{load_checkpoint, save_checkpoint};
