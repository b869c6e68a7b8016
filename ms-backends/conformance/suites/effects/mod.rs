//! Tests prints, assertions, random numbers and writes of parameters.

mod across_calls;
mod copies;
mod in_place;
mod packed;
mod program_order;
mod programs;
mod sampling;
