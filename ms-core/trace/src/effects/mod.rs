//! Lowers effects in graphs: copies of parameters for reads that need them, and float statuses.
//!
//! Order itself needs no pass. A slot's value is its state, and a read is the value at its point of the program.

mod copies;
mod float_status;

pub use copies::{Level, Slots, count_moves, insert_moves};
pub use float_status::{float_status, has_float_status};
