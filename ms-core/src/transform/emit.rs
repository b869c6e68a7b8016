//! What transforms add to the graph that is being built.

use crate::error::Result;
use crate::ir::{Graph, Node};
use crate::ops::{self, OpDef};
use crate::tensor::{Attrs, Dim, Tensor, Type};
use crate::trace::Tracer;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// The tracer that builds the graph.
pub(super) fn tracer() -> Rc<Tracer> {
    Tracer::current().expect("a transform builds its graph by a tracer")
}

/// Adds a node with regions.
pub(super) fn emit(
    def: &'static OpDef,
    attrs: Attrs,
    regions: &[Arc<Graph>],
    inputs: &[Tensor],
) -> Result<Vec<Tensor>> {
    let types: Vec<Type> = inputs.iter().map(Tensor::ty).collect();
    let results = ops::infer(def, &attrs, regions, &types.iter().collect::<Vec<_>>())?;
    tracer().region_node(def.op(), attrs, regions.into(), inputs, results.into_vec(), Location::caller())
}

/// Whether a type is that of a stack: a first axis whose size only running decides.
pub(super) fn is_stack(ty: &Type) -> bool {
    ty.dims.first() == Some(&Dim::DYNAMIC)
}

/// Zeros of a type that is not that of a stack.
pub(super) fn zeros(ty: &Type) -> Tensor {
    ops::full_of(ty.dims.clone(), 0, ty.dtype)
}

/// A sum of no gradients: of all numbers, -0 alone leaves what is added to it as it is, to the bit.
pub(super) fn nothing(ty: &Type) -> Tensor {
    ops::full_of(ty.dims.clone(), -0.0, ty.dtype)
}

/// Adds a node with regions as it stands, on other operands.
pub(super) fn emit_node(node: &Node, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    emit(ops::definition(node.op), node.attrs.clone(), &node.regions, inputs)
}
