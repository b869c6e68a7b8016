//! Adds the op and the user's source location to errors of runs.

use crate::session::call::source::Source;
use ms_compile::lower::{
    Exhausted, composite_of_node, function_of_node, line_of_node, location_of_failure, node_of_memory,
};
use ms_ir::error::{Error, Missing};

/// Adds the op and the user's source location to an error.
pub(super) fn located(source: &Source, mut error: Error) -> Error {
    if let Some(missing) = error.take_missing() {
        return of_memory(source, error, missing);
    }
    let Some(traced) = source.traced() else { return error };
    let node = error.report().node;
    let error = match node.and_then(|node| composite_of_node(traced, node)) {
        Some(composite) => error.of_composite(composite),
        None => error,
    };
    let error = error.of_function(node.and_then(|node| function_of_node(traced, node)));
    error.located(|node| line_of_node(traced, node))
}

/// Adds to the error of a run that exhausted memory the op of the values that did not fit.
fn of_memory(source: &Source, error: Error, missing: Missing) -> Error {
    let graph = source.at_run();
    let Some(found) = graph.as_deref().and_then(|it| node_of_memory(it, missing)) else { return error };
    let Exhausted { node, is_only } = found;
    let error = error.with_op(node.op.name()).of_function(node.called);
    let line = if source.has_own_lines() { node.location } else { location_of_failure(node) };
    match line.filter(|_| is_only) {
        Some(line) => error.at(line),
        None => error,
    }
}
