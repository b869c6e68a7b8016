//! Tests prints, assertions, random numbers and writes of parameters.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

mod across_calls;
mod copies;
mod in_place;
mod packed;
mod program_order;
mod programs;
mod sampling;
