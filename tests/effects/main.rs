//! Prints, assertions, random numbers and writes of parameters.

#[path = "../common/ways.rs"]
mod ways;

mod across_calls;
mod copies;
mod in_place;
mod program_order;
mod programs;
