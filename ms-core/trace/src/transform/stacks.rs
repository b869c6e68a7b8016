//! Implements operations on stacks: sequences with a length known only when a loop has run. Only a `scan` can read a
//! stack, so gradients of stacks are scans.

use super::emit::{emit, is_stack, zeros};
use crate::trace;
use ms_ir::error::Result;
use ms_ir::{Def, Graph, Node, ValueId};
use ms_ops::ops::{self, Control, Loop};
use ms_ops::tensor::{Tensor, Type};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Returns a scan over `sequences` stacks, without carries.
fn over_stacks(sequences: usize) -> Control {
    Control::Loop(Loop::scan(None, 0, sequences, false))
}

/// Returns the type of an element of a stack.
fn element(ty: &Type) -> Type {
    Type::new(ty.dtype, ty.dims[1..].iter().copied().collect())
}

/// Returns the sums of the elements of two stacks of `count` elements.
pub(super) fn add(count: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let ty = element(&a.ty());
    let body = trace::build("add", &[ty.clone(), ty], |it| Ok(vec![ops::add(&it[0], &it[1])]))?;
    let operands = [count.clone(), a.clone(), b.clone()];
    Ok(emit(&over_stacks(2), &[Arc::new(body)], &operands)?.remove(0))
}

/// Returns a stack of the type `ty` with `count` zero elements.
pub(super) fn zero_stack(count: &Tensor, ty: &Type) -> Result<Tensor> {
    let ty = element(ty);
    let body = trace::build("zeros", &[], |_| Ok(vec![zeros(&ty)]))?;
    Ok(emit(&over_stacks(0), &[Arc::new(body)], std::slice::from_ref(count))?.remove(0))
}

/// Returns zeros of a type. For the type of a stack, they are `count` zero elements.
pub(super) fn zeros_of(ty: &Type, count: impl FnOnce() -> Option<Tensor>) -> Result<Tensor> {
    if !is_stack(ty) {
        return Ok(zeros(ty));
    }
    // The gradient of a stack that no scan takes is unused.
    zero_stack(&count().unwrap_or_else(|| Tensor::scalar(0i64)), ty)
}

/// Returns for the stacks of a graph the value that is the number of their elements. Every stack comes from a loop that
/// counts, or goes to a scan that receives the number.
pub(super) fn counts(graph: &Graph) -> FxHashMap<ValueId, ValueId> {
    let mut found = FxHashMap::default();
    let stack = |id: &ValueId| is_stack(graph.ty(*id));
    let values = graph.nodes().flat_map(|(_, node)| node.inputs.iter().chain(&node.outputs));
    if !values.chain(graph.inputs()).any(stack) {
        return found;
    }
    for (_, node) in graph.nodes().filter(|(_, node)| node.inputs.iter().chain(&node.outputs).any(stack)) {
        match Control::of(node) {
            Some(Control::Loop(at)) if at.is_while() => {
                let count = node.outputs[at.carries];
                found.extend(node.outputs.iter().filter(|it| stack(it)).map(|&it| (it, count)));
            }
            Some(Control::Loop(at)) if at.is_counted() => {
                let stacks = node.inputs.iter().chain(&node.outputs).filter(|it| stack(it));
                stacks.for_each(|&it| {
                    found.entry(it).or_insert(node.inputs[0]);
                });
            }
            Some(Control::Call { .. } | Control::Branch) => {
                node.regions.iter().for_each(|region| counts_inside(node, region, &mut found));
            }
            _ => {}
        }
    }
    found
}

/// Adds the lengths of the stacks that enter and leave a region of a call or a branch.
fn counts_inside(node: &Node, region: &Graph, found: &mut FxHashMap<ValueId, ValueId>) {
    let operands = &node.inputs[node.inputs.len() - region.inputs().len()..];
    let inside = counts(region);
    // Maps a value of the region to one of the enclosing graph.
    let around = |id: ValueId| match region.value(id).def {
        Def::Input(at) => Some(operands[at as usize]),
        Def::Result(..) => region.outputs().iter().position(|it| *it == id).map(|at| node.outputs[at]),
    };
    for (&stack, &count) in &inside {
        let Some(count) = around(count) else { continue };
        let entered = region.inputs().iter().zip(operands).filter(|(id, _)| **id == stack).map(|it| *it.1);
        let left = region.outputs().iter().zip(&node.outputs).filter(|(id, _)| **id == stack).map(|it| *it.1);
        for it in entered.chain(left) {
            found.entry(it).or_insert(count);
        }
    }
}
