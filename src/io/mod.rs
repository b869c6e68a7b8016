//! Model files.

mod checkpoint;
mod replace;
mod safetensors;

pub use checkpoint::{load_checkpoint, save_checkpoint};
