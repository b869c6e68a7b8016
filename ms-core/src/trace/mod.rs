//! From a Rust call to a graph: what calls take and give, and the tracer.

mod arg;
mod cell;

pub use arg::{Arg, Frozen, Name, Sink, Training, Tree};
pub use cell::Cell;
