//! Defines the values of a graph under construction.

use ms_ir::data::{Shape, Type};

/// A value of a graph under construction.
#[derive(Debug)]
pub struct Traced {
    /// The trace. Its number is never reused in a process.
    pub trace: u64,
    /// The graph of the trace's stack that defines the value.
    pub frame: u32,
    /// The value in that graph.
    pub value: u32,
    /// The type.
    pub ty: Type,
    /// The shape, if it is constant; otherwise it is empty.
    pub shape: Shape,
    /// Whether this is the result of a failed op. Ops on it are not reported again.
    pub poisoned: bool,
}
