//! Analyses whether results of a graph vanish with some of its inputs: a condition for linearity that derivatives do
//! not show.

use super::composite::expand_composites;
use ms_ir::error::Result;
use ms_ir::{Graph, Node};
use ms_ops::ops::{Derivative, definition, is_discontinuous, literal_of, sums_operands, transform_rules};

/// The known facts about a value.
#[derive(Clone, Copy, Default)]
struct Value {
    /// Whether it depends on the inputs.
    depends: bool,
    /// Whether it is zero where the inputs are.
    is_zero: bool,
}

/// Returns whether the first `results` outputs of a graph are zero where its inputs `wrt` are zero, as far as its ops
/// show.
///
/// If the gradients with respect to these inputs do not depend on them, such outputs are linear. The others have a
/// constant term, or contain step functions of the inputs, such as their signs. A region is assumed to map zero to
/// zero.
///
/// # Errors
/// The errors of expanding composites.
pub(super) fn vanishes(graph: &Graph, wrt: &[usize], results: usize) -> Result<bool> {
    let graph = expand_composites(graph, &|_, _| true)?;
    let mut known = vec![Value::default(); graph.value_count()];
    for &at in wrt {
        known[graph.inputs()[at].0 as usize] = Value { depends: true, is_zero: true };
    }
    for (_, node) in graph.nodes() {
        let value = of_node(&graph, node, &known);
        node.outputs.iter().for_each(|it| known[it.0 as usize] = value);
    }
    Ok(graph.outputs()[..results].iter().all(|it| known[it.0 as usize].is_zero))
}

fn of_node(graph: &Graph, node: &Node, known: &[Value]) -> Value {
    let is_float = |id| graph.ty(id).dtype.is_float();
    if let Some(literal) = literal_of(node) {
        return Value { depends: false, is_zero: literal.bytes().iter().all(|&it| it == 0) };
    }
    let depends = node.inputs.iter().any(|it| known[it.0 as usize].depends);
    if depends
        && (matches!(transform_rules(definition(node.op)).derivative, Derivative::Zero) || is_discontinuous(node.op))
    {
        return Value { depends, is_zero: false };
    }
    let mut floats = node.inputs.iter().filter(|&&it| is_float(it)).map(|it| known[it.0 as usize].is_zero);
    let is_zero = if sums_operands(node.op) { floats.all(|it| it) } else { floats.any(|it| it) };
    Value { depends, is_zero }
}
