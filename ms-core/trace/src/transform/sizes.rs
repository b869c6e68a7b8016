//! Substitutes symbolic sizes in graphs and checks them.

use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Node, ValueId, subgraphs};
use ms_ops::ops;
use ms_ops::tensor::{Dim, Type};
use rustc_hash::FxHashMap;

/// Substitutes these sizes for symbols, and checks the assumptions of tracing about equal sizes.
///
/// # Errors
/// [`Code::Shape`] at the source location of the op with operands that do not fit at these sizes.
pub fn with_sizes(graph: &Graph, sizes: &[(&str, usize)]) -> Result<Graph> {
    let known = specialized(graph, sizes)?;
    for part in subgraphs(&known).into_iter().map(|it| &**it).chain([&known]) {
        for (_, node) in part.nodes() {
            fits(part, node).map_err(|error| {
                let error = error.with_op(node.op.name()).within(place(sizes));
                node.location.map_or(error.clone(), |it| error.at(it))
            })?;
        }
    }
    Ok(known)
}

/// Returns whether the ops of a graph have the same meaning for all values of symbols. No size may be broadcast for
/// some values and not for others. Otherwise a derivative for symbols, or an optimised form, would be valid for some
/// values only.
pub fn is_decided(graph: &Graph) -> bool {
    ops::rules::decides(|| {
        for part in subgraphs(graph).into_iter().map(|it| &**it).chain([graph]) {
            for (_, node) in part.nodes() {
                let inputs: Vec<&Type> = node.inputs.map_vec(|&id| part.ty(id));
                if node.attrs.is_symbolic() || inputs.iter().any(|it| it.is_symbolic()) {
                    // Errors are about the sizes of a call.
                    let _types = ops::infer(ops::definition(node.op), &node.attrs, &node.regions, &inputs);
                }
            }
        }
    })
}

/// Returns whether an axis of symbolic size has zero or one elements at these sizes. Rules of ops and passes test for
/// both, and the tests are false for a symbol.
pub fn has_small_axis(graph: &Graph, sizes: &[(&str, usize)]) -> bool {
    let size = |name: &str| sizes.iter().find(|it| it.0 == name).map(|it| it.1);
    let mut seen = FxHashMap::default();
    let mut is_small =
        |dim: Dim| *seen.entry(dim).or_insert_with(|| dim.number(&size).is_ok_and(|it| (0..=1).contains(&it)));
    subgraphs(graph).into_iter().map(|it| &**it).chain([graph]).any(|part| {
        let mut types = (0..part.value_count()).map(|it| part.ty(ValueId(it as u32)));
        types.any(|ty| ty.dims.iter().any(|&dim| dim.is_symbolic() && is_small(dim)))
    })
}

/// Substitutes these sizes for symbols. The graph from which this one was optimised is known to [fit](with_sizes).
///
/// # Errors
/// [`Code::Shape`] when a symbol has no size, or a dimension is negative.
pub fn specialized(graph: &Graph, sizes: &[(&str, usize)]) -> Result<Graph> {
    let size = |name: &str| sizes.iter().find(|it| it.0 == name).map(|it| it.1);
    graph.with_sizes(&size).map_err(|error| error.within(place(sizes)))
}

fn place(sizes: &[(&str, usize)]) -> String {
    let named: Vec<String> = sizes.map_vec(|(name, size)| format!("{name} = {size}"));
    format!("sizes {}", named.join(", "))
}

fn fits(graph: &Graph, node: &Node) -> Result<()> {
    let inputs: Vec<&Type> = node.inputs.map_vec(|&id| graph.ty(id));
    let found = ops::infer(ops::definition(node.op), &node.attrs, &node.regions, &inputs)?;
    let wanted = node.outputs.iter().map(|&id| graph.ty(id));
    match wanted.zip(&found).find(|(wanted, found)| wanted != found) {
        None => Ok(()),
        Some((wanted, found)) => Err(Error::new(
            Code::Shape,
            format!("the result is {found}, where {wanted} was compiled"),
        )
        .with_operands(inputs.iter().map(|it| it.to_string()))
        .help(
            "the function takes these sizes to be equal; give them one symbol in `dims`, or call it with equal ones",
        )),
    }
}
