//! Control flow: on host values, on tensors, and what is refused.

#[path = "../common/paths.rs"]
mod paths;

mod host;
mod jumps;
mod labels;
mod refusals;
mod regions;
