//! Builds the bodies of elementwise nodes and computes the costs of nodes.

use crate::lower::rewrites::flat::{Flat, FlatNode, Kind};
use crate::target::{Cost, Target};
use ms_ir::data::DType;
use ms_ir::op::{Lowering, definition};
use ms_ir::{KernelBuilder, LaneAxis, Scope, Val};
use smallvec::SmallVec;

/// Returns the cost of a node, determined by building its body.
pub(in crate::lower) fn weigh(flat: &Flat, node: &FlatNode, target: &Target) -> Cost {
    let mut body = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let values: SmallVec<[Val; 4]> = node.inputs.iter().map(|it| body.constant(0i64, it.dtype)).collect();
    match node.kind {
        Kind::Generate(_) => {
            let position: SmallVec<[Val; 4]> =
                flat.values[node.outputs[0]].shape.iter().map(|_| body.constant(0i64, DType::I64)).collect();
            apply(flat, node, &mut body, &position);
        }
        Kind::Reduce(rule) => {
            body.cast(values[0], (rule.accumulate)(node.inputs[0].dtype));
        }
        Kind::Gather { .. } => return gather_cost(flat, node),
        _ => {
            apply(flat, node, &mut body, &values);
        }
    }
    body.end_stage(Scope::Point);
    let cost = target.cost(&body.finish());
    Cost { insts: (cost.insts - values.len()).max(1), ..cost }
}

/// Returns the cost of a gather. If adjacent elements have the same index, it is computed outside the lanes; otherwise
/// lanes are read one by one.
fn gather_cost(flat: &Flat, node: &FlatNode) -> Cost {
    let index = &node.inputs[1].layout;
    let last = (0..index.rank()).rfind(|&axis| index.shape()[axis] != 1);
    let varies = last.is_some_and(|it| index.strides()[it] != 0);
    let is_wide = varies || flat.values[node.outputs[0]].dtype.size() == 8;
    Cost { insts: if varies { 8 } else { 4 }, is_wide }
}

/// Emits the body of an elementwise or generated node.
pub(in crate::lower) fn apply(flat: &Flat, node: &FlatNode, body: &mut KernelBuilder, values: &[Val]) -> Val {
    match node.kind {
        Kind::Copy => values[0],
        Kind::Map(op) => match &definition(op).lowering {
            Lowering::Map(map) | Lowering::Position(map) => map(&node.attrs, body, values),
            Lowering::Check(_) | Lowering::Gather(_) => definition(op).build_check(&node.attrs, body, values),
            _ => unreachable!("the kind of a node follows from its op"),
        },
        Kind::Generate(op) => match &definition(op).lowering {
            Lowering::Generate(generate) => generate(&node.attrs, body, values, flat.values[node.outputs[0]].dtype),
            _ => unreachable!("the kind of a node follows from its op"),
        },
        Kind::Reduce(_)
        | Kind::Gather { .. }
        | Kind::Contraction(_)
        | Kind::Library(_)
        | Kind::Slices(_)
        | Kind::Check(_)
        | Kind::Region(_) => {
            unreachable!("reductions, gathers and whole steps have no body")
        }
    }
}
