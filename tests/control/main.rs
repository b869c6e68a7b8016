//! Control flow: on host values, on tensors, and its errors.

// Linked for `MS_DEVICE_TARGET=sim`.
use ms_sim as _;

#[path = "../common/paths.rs"]
mod paths;

mod host;
mod jumps;
mod labels;
mod refusals;
mod regions;
