//! Optimisers, models, datasets, state dicts and checkpoints.

// Linked for `MS_DEVICE_TARGET=sim`.
use ms_sim as _;

mod checkpoint;
mod data;
mod exported;
mod files;
mod folder;
#[cfg(feature = "image")]
mod images;
mod lbfgs;
mod metrics;
mod model;
mod optimisers;
mod page;
mod resume;
mod schedules;
mod state_dict;
mod steps;
mod transforms;
