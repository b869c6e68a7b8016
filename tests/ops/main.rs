//! Tests ops: values, numerics, layouts, and invalid input.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

#[path = "../common/told.rs"]
mod told;

mod bad_input;
mod composed;
mod custom_ops;
mod dynamic_slices;
mod edges;
mod indices;
mod kernels;
mod movement;
mod narrow;
mod numbers_refused;
mod numerics;
mod primitives;
mod reductions;
mod robustness;
mod safety;
mod segments;
mod tensors;
mod unseen;
