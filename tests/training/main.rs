//! Optimisers and checkpoints.

mod checkpoint;
mod optimisers;
