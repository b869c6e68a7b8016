//! Tests optimisers, models, datasets, state dicts and checkpoints.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

mod checkpoint;
mod data;
mod exported;
mod files;
#[cfg(feature = "image")]
mod images;
mod lbfgs;
mod metrics;
mod model;
#[cfg(feature = "onnx")]
mod models;
mod optimisers;
mod page;
mod resume;
mod schedules;
mod state_dict;
mod steps;
mod transforms;
