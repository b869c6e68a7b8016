//! Tests control flow on host values and on tensors, and its errors.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

#[path = "../common/paths.rs"]
mod paths;

mod host;
mod jumps;
mod labels;
mod refusals;
mod regions;
