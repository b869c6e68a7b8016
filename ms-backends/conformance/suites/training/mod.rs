//! Tests optimisers, models, datasets, state dicts and checkpoints.

mod checkpoint;
mod data;
mod exported;
mod lbfgs;
mod metrics;
mod model;
mod optimisers;
mod resume;
mod schedules;
mod state_dict;
mod steps;
mod transforms;
