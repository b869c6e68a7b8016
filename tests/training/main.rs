//! Optimisers, state dicts and checkpoints.

mod checkpoint;
mod optimisers;
mod resume;
mod state_dict;
mod steps;
