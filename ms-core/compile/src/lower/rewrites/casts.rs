//! Folds casts around contractions into the types that these read and write.
//!
//! An operand that is widened to the accumulator type is read in its own type: widening is exact, so sums do not
//! change. A result that is only read after narrowing is written in the narrow type, rounded once.

use crate::lower::fusion::body::apply;
use crate::lower::rewrites::flat::{Access, Flat, FlatNode, Kind, NodeIndex, Origin, Source};
use crate::lower::rewrites::sink::Steps;
use ms_ir::data::{DType, Layout};
use ms_ir::{ContractionRanks, Inst, KernelBuilder, LaneAxis, Role, Scope, StrideClass};
use smallvec::SmallVec;

/// Replaces operands and results of contractions that are casts by the operands of the casts.
pub(in crate::lower) fn fold_casts(flat: &mut Flat) {
    let contractions: Vec<NodeIndex> =
        (0..flat.nodes.len()).filter(|&it| matches!(flat.nodes[it].kind, Kind::Contraction(_))).collect();
    if contractions.is_empty() {
        return;
    }
    let mut changed = false;
    for &node in &contractions {
        let Kind::Contraction(ranks) = flat.nodes[node].kind else { continue };
        for operand in 0..2 {
            if let Some(access) = widened(flat, &flat.nodes[node].inputs[operand], ranks, operand) {
                flat.nodes[node].inputs[operand] = access;
                changed = true;
            }
        }
    }
    let readers = only_readers(flat);
    for node in contractions {
        let result = flat.nodes[node].outputs[0];
        let Some(cast) = readers[result].filter(|&it| narrows(flat, it)) else { continue };
        // The node of the cast now computes a value without uses.
        let narrow = std::mem::replace(&mut flat.nodes[cast].outputs[0], result);
        flat.nodes[node].outputs[0] = narrow;
        flat.nodes[cast].inputs.clear();
        changed = true;
    }
    if changed {
        let uses = flat.uses();
        let is_used = |it: &FlatNode| !matches!(it.kind, Kind::Map(_)) || it.outputs.iter().any(|&it| uses[it] > 0);
        flat.retain_nodes(|_, node| is_used(node));
    }
}

/// Returns the source of a contraction's operand if the operand is an exact cast to the accumulator type.
fn widened(flat: &Flat, access: &Access, ranks: ContractionRanks, operand: usize) -> Option<Access> {
    let cast = &flat.nodes[flat.producer(access.value()?)?];
    let [from] = &cast.inputs[..] else { return None };
    let in_memory = matches!(from.source, Source::Value(it) if flat.values[it].origin != Origin::Position);
    let is_exact = from.dtype != access.dtype && from.dtype.compute() == access.dtype;
    if !in_memory || !is_exact || converted(flat, cast) != Some(access.dtype) {
        return None;
    }
    let shape = &flat.values[cast.outputs[0]].shape;
    let layout = match flat.is_whole(from) {
        true => access.layout.clone(),
        false => Steps::of(&access.layout, shape)?.through(&from.layout),
    };
    let fits = is_read_fast(&layout, ranks)
        && (!sums_evenly(&access.layout, ranks, operand) || sums_evenly(&layout, ranks, operand));
    fits.then_some(Access { layout, ..*from })
}

/// Returns whether the strides of a contraction's operand allow fast reads. A matrix needs one axis of stride one, and
/// another with a stride of at least that axis' size. With more axes, one of them needs stride one.
pub(in crate::lower) fn is_read_fast(layout: &Layout, ranks: ContractionRanks) -> bool {
    let rank = layout.rank();
    if ranks.k != 1 || rank != ranks.batch + 2 {
        let axes = || layout.shape()[ranks.batch..].iter().zip(&layout.strides()[ranks.batch..]);
        return axes().all(|it| *it.0 <= 1) || axes().any(|it| *it.0 > 1 && *it.1 == 1);
    }
    let axis = |it: usize| (layout.shape()[it], layout.strides()[it]);
    let (rows, columns) = (axis(rank - 2), axis(rank - 1));
    let dense = |inner: (usize, isize), outer: (usize, isize)| {
        (inner.0 == 1 || inner.1 == 1) && (outer.0 == 1 || outer.1 >= inner.0 as isize)
    };
    dense(columns, rows) || dense(rows, columns)
}

/// Returns whether an operand (0 is left, 1 is right) is evenly spaced along all reduction dimensions together.
pub(in crate::lower) fn sums_evenly(layout: &Layout, ranks: ContractionRanks, operand: usize) -> bool {
    let first = if operand == 0 { layout.rank() - ranks.k } else { ranks.batch };
    let axes = (first..first + ranks.k).filter(|&it| layout.shape()[it] != 1);
    let axes: SmallVec<[usize; 4]> = axes.collect();
    let follows =
        |it: &[usize]| layout.strides()[it[0]] == layout.strides()[it[1]].wrapping_mul(layout.shape()[it[1]] as isize);
    axes.windows(2).all(follows)
}

/// Returns for each value the node that is its only reader and reads it whole.
fn only_readers(flat: &Flat) -> Vec<Option<NodeIndex>> {
    let uses = flat.uses();
    let mut readers = vec![None; flat.values.len()];
    for (index, node) in flat.nodes.iter().enumerate() {
        for access in &node.inputs {
            if let Some(value) = access.value().filter(|&it| uses[it] == 1 && flat.is_whole(access)) {
                readers[value] = Some(index);
            }
        }
    }
    readers
}

/// Returns whether a node narrows its only operand to a type with the same accumulator type, by rounding or wrapping.
fn narrows(flat: &Flat, node: NodeIndex) -> bool {
    let node = &flat.nodes[node];
    let fits = |to: DType| to != node.inputs[0].dtype && to.compute() == node.inputs[0].dtype;
    converted(flat, node).is_some_and(fits)
}

/// Returns the result type of a node that only converts its operand by a single instruction.
fn converted(flat: &Flat, node: &FlatNode) -> Option<DType> {
    let (Kind::Map(_), [from]) = (node.kind, &node.inputs[..]) else { return None };
    let mut body = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let param = body.param(from.dtype, Role::Input, StrideClass::Unit);
    let element = body.load(param);
    let result = apply(flat, node, &mut body, &[element]);
    body.end_stage(Scope::Point);
    match body.finish().insts[..] {
        [_, Inst::Cast { value, to }] if value == element && result != element => Some(to),
        _ => None,
    }
}
