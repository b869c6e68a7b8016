//! The verifier of graphs: their structure, and every node against its op's definition.

use super::{Effects, Lowering, OpDef, Regions, Types, by_number, definition};
use crate::data::{Attrs, Dim, Op, Type};
use crate::error::{Code, Error, Result};
use crate::{Def, Graph, Node, NodeId, ValueId, defects, subgraphs, verify_structure, verify_structure_of_one};
use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;

/// Infers the types of an op's results from its attributes, its regions and the types of its operands. Attributes are
/// checked against their declarations before any rule of the op reads them.
///
/// # Errors
/// The errors of [`AttrInfo::check`](crate::data::AttrInfo::check) and of the op's type rule.
pub fn infer(def: &OpDef, attrs: &Attrs, regions: &Regions, inputs: &[&Type]) -> Result<Types> {
    let in_ranges = || def.info.attrs.iter().zip(attrs.as_slice()).try_for_each(|(info, attr)| info.check(attr));
    let results = in_ranges().and_then(|()| match &def.lowering {
        Lowering::Regions(rule) if regions.len() == rule.count => (rule.infer)(attrs, regions, inputs),
        // The type rule of such an op is an error without regions.
        Lowering::Regions(_) => (def.infer)(attrs, inputs),
        _ => inputs.iter().try_for_each(|it| known_size(it)).and_then(|()| (def.infer)(attrs, inputs)),
    });
    let sized = |results: Types| results.iter().try_for_each(Type::check_size).map(|()| results);
    results
        .and_then(sized)
        .map_err(|error| error.with_op(def.name()).with_operands(inputs.iter().map(|it| it.to_string())))
}

fn known_size(ty: &Type) -> Result<()> {
    match ty.dims.contains(&Dim::DYNAMIC) {
        false => Ok(()),
        true => Err(Error::new(Code::Shape, format!("{ty} has a size that only running decides"))),
    }
}

/// Verifies a graph and its subgraphs. Checks the structure (see [`verify_structure`]), and every node against the
/// definition of its op, including the inferred types of its results.
///
/// # Errors
/// [`Code::Verify`] with all defects. Types are checked only if the structure is valid.
pub fn verify(graph: &Graph) -> Result<()> {
    verify_structure(graph)?;
    let mut found = Vec::new();
    let mut operands = FxHashMap::default();
    for region in subgraphs(graph) {
        check(region, &mut operands, &mut found);
    }
    check(graph, &mut operands, &mut found);
    defects(graph, found)
}

/// Applies [`verify`] to a graph without its subgraphs.
///
/// # Errors
/// [`Code::Verify`] with all defects.
pub fn verify_one(graph: &Graph) -> Result<()> {
    verify_structure_of_one(graph)?;
    let mut found = Vec::new();
    check(graph, &mut FxHashMap::default(), &mut found);
    defects(graph, found)
}

/// Returns the numbers of operands that the rules of an op accept, derived from its samples. An op checks the number
/// itself if it has no maximum, or depends on attributes and regions.
pub fn operand_counts(def: &OpDef) -> RangeInclusive<usize> {
    let samples = (def.samples)();
    let counts = || samples.iter().map(|it| it.inputs.len());
    let is_bounded = match &def.lowering {
        // The attributes of such an op may determine the number, and then samples differ.
        Lowering::Map(_) => counts().min() == counts().max(),
        Lowering::Composite(_)
        | Lowering::Contraction(_)
        | Lowering::Gather(_)
        | Lowering::Generate(_)
        | Lowering::Spatial(_)
        | Lowering::Position(_)
        | Lowering::Reduce(_) => true,
        _ => false,
    };
    let most = counts().max().filter(|_| is_bounded).unwrap_or(usize::MAX);
    counts().min().unwrap_or(0)..=most
}

fn check(graph: &Graph, operands: &mut FxHashMap<u16, RangeInclusive<usize>>, found: &mut Vec<Error>) {
    let sizes = graph.inputs().iter().map(|&it| graph.ty(it).check_size());
    found.extend(sizes.filter_map(Result::err).map(|error| error.within(format!("`@{}`", graph.name()))));
    for (id, node) in graph.nodes() {
        if let Err(error) = check_node(graph, node, operands) {
            found.push(located(error, graph, id));
        }
    }
    check_starts(graph, found);
}

/// Attaches a node's op and location to an error.
fn located(error: Error, graph: &Graph, id: NodeId) -> Error {
    let node = graph.node(id);
    let error = error.with_op(node.op.name()).within(format!("`@{}`, node {}", graph.name(), id.0));
    match node.location {
        Some(location) => error.at(location),
        None => error,
    }
}

/// Checks that each start has one node that ends it, and that each such node ends one start.
fn check_starts(graph: &Graph, found: &mut Vec<Error>) {
    let has = |node: &Node, effects| by_number(node.op.number()).is_some_and(|it| it.effects.any_of(effects));
    if !graph.nodes().any(|(_, node)| has(node, Effects::PENDING.and(Effects::DONE))) {
        return;
    }
    // The node that reads each result, once for each read. An output is read by no node.
    let mut readers: FxHashMap<ValueId, Vec<Option<NodeId>>> = FxHashMap::default();
    for (id, node) in graph.nodes() {
        node.inputs.iter().for_each(|it| readers.entry(*it).or_default().push(Some(id)));
    }
    graph.outputs().iter().for_each(|it| readers.entry(*it).or_default().push(None));
    let mut report = |id, message: &str| found.push(located(Error::new(Code::Verify, message), graph, id));
    for (id, node) in graph.nodes() {
        if has(node, Effects::PENDING) {
            let first = node.outputs.first().and_then(|it| *readers.get(it)?.first()?);
            let end = first.filter(|it| has(graph.node(*it), Effects::DONE));
            let ends = |it| end.is_some() && readers.get(it).is_some_and(|all| all[..] == [end]);
            if end.is_none() || !node.outputs.iter().all(ends) {
                report(
                    id,
                    "one node has to end this start: the only reader of its results, each of which it reads once",
                );
            }
        }
        if has(node, Effects::DONE) {
            let start = |it: &ValueId| match graph.value(*it).def {
                Def::Result(node, _) => has(graph.node(node), Effects::PENDING).then_some(node),
                Def::Input(_) => None,
            };
            let mut starts: Vec<NodeId> = node.inputs.iter().filter_map(start).collect();
            starts.sort_unstable();
            starts.dedup();
            if starts.len() != 1 {
                report(id, &format!("ends {} starts, not 1", starts.len()));
            }
        }
    }
}

fn check_node(graph: &Graph, node: &Node, operands: &mut FxHashMap<u16, RangeInclusive<usize>>) -> Result<()> {
    let Some(def) = by_number(node.op.number()) else {
        return refuse(format!("no op has number {}", node.op.number()));
    };
    let counts = operands.entry(node.op.number()).or_insert_with(|| operand_counts(def));
    let inputs: Vec<&Type> = node.inputs.iter().map(|&id| graph.ty(id)).collect();
    let outputs: Vec<Type> = node.outputs.iter().map(|&id| graph.ty(id).clone()).collect();
    fits_def(def, counts, &node.attrs, &node.regions, &inputs, &outputs)
}

/// Checks that attributes and regions have the kinds that an op declares, and that results have the types that it
/// infers for these operands.
///
/// # Errors
/// [`Code::Verify`], or the errors of the op.
pub fn fits(op: Op, attrs: &Attrs, regions: &Regions, inputs: &[&Type], outputs: &[Type]) -> Result<()> {
    let def = definition(op);
    fits_def(def, &operand_counts(def), attrs, regions, inputs, outputs)
}

/// Checks attributes and operands like [`fits`], of an op without regions, and returns the types of the results.
///
/// # Errors
/// [`Code::Verify`], or the errors of the op.
pub fn results(op: Op, attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    let def = definition(op);
    results_of_def(def, &operand_counts(def), attrs, &[], inputs)
}

fn fits_def(
    def: &OpDef,
    operands: &RangeInclusive<usize>,
    attrs: &Attrs,
    regions: &Regions,
    inputs: &[&Type],
    outputs: &[Type],
) -> Result<()> {
    let wanted = results_of_def(def, operands, attrs, regions, inputs)?;
    if !outputs.iter().eq(&wanted) {
        return refuse(format!("results are {outputs:?}, but the op gives {wanted:?}"));
    }
    Ok(())
}

fn results_of_def(
    def: &OpDef,
    operands: &RangeInclusive<usize>,
    attrs: &Attrs,
    regions: &Regions,
    inputs: &[&Type],
) -> Result<Types> {
    let wanted = match &def.lowering {
        Lowering::Regions(rule) => rule.count,
        _ => 0,
    };
    if regions.len() != wanted {
        return refuse(format!("{} regions, not {wanted}", regions.len()));
    }
    if attrs.as_slice().len() != def.info.attrs.len() {
        let names: Vec<&str> = def.info.attrs.iter().map(|it| it.name).collect();
        return refuse(format!("{} attributes for the names {names:?}", attrs.as_slice().len()));
    }
    if !operands.contains(&inputs.len()) {
        let bound = if inputs.len() < *operands.start() { operands.start() } else { operands.end() };
        return refuse(format!("{} operands, not {bound}", inputs.len()));
    }
    infer(def, attrs, regions, inputs)
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(Code::Verify, message))
}
