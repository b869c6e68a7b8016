//! Optimisers, state dicts and checkpoints.

mod checkpoint;
mod lbfgs;
mod optimisers;
mod resume;
mod state_dict;
mod steps;
