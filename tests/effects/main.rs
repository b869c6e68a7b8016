//! Prints, assertions, random numbers and writes of parameters.

// Linked for `MS_DEVICE_TARGET=sim`.
use ms_sim as _;

#[path = "../common/ways.rs"]
mod ways;

mod across_calls;
mod copies;
mod in_place;
mod packed;
mod program_order;
mod programs;
mod sampling;
