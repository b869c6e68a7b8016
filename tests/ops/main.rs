//! Ops: values, numerics, layouts, and invalid input.

mod bad_input;
mod movement;
mod numbers_refused;
mod numerics;
mod primitives;
mod reductions;
mod robustness;
mod safety;
mod tensors;
