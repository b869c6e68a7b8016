//! The text form of graphs over this crate's primitives.

use ms_ir::error::Result;
use ms_ir::{Graph, parse};

/// Reads a graph in the [text form](ms_ir::text).
///
/// # Errors
/// [`Code::Parse`](crate::Code::Parse) with line, column, and what was expected.
///
/// ```
/// let graph = ms_core::ops::parse_graph(
///     "graph @double(%x: f32[2]) -> (f32[2]) {
///        %y = add %x, %x : f32[2]
///        return %y
///      }",
/// )?;
/// assert_eq!(graph.len(), 1);
/// # Ok::<(), ms_core::Error>(())
/// ```
pub fn parse_graph(text: &str) -> Result<Graph> {
    parse(text, &|name| crate::ops::by_name(name).map(|it| it.op()))
}
