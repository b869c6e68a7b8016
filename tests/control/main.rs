//! Control flow: on host values, on tensors, and its errors.

#[path = "../common/paths.rs"]
mod paths;

mod host;
mod jumps;
mod labels;
mod refusals;
mod regions;
