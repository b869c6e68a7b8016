//! Tests optimisers, models, datasets, state dicts and checkpoints.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

mod files;
#[cfg(feature = "image")]
mod images;
#[cfg(feature = "onnx")]
mod models;
mod page;

ms_conformance::suites!(training);
