//! Emits nodes of transforms into the graph under construction.

use crate::trace::Tracer;
use ms_ir::error::Result;
use ms_ir::{Graph, Node};
use ms_ops::ops::{self, Control};
use ms_ops::tensor::{Dim, Tensor, Type};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// Returns the tracer that builds the graph.
pub(super) fn tracer() -> Rc<Tracer> {
    Tracer::current().expect("a transform builds its graph by a tracer")
}

/// Adds a node with regions.
pub(super) fn emit(control: &Control, regions: &[Arc<Graph>], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    tracer().control(control, regions.into(), inputs, Location::caller())
}

/// Returns whether a type is a stack's: the size of its first axis is known only at run time.
pub(super) fn is_stack(ty: &Type) -> bool {
    ty.dims.first() == Some(&Dim::DYNAMIC)
}

/// Returns zeros of a type that is not a stack's.
pub(super) fn zeros(ty: &Type) -> Tensor {
    ops::full_of(ty.dims.clone(), 0, ty.dtype)
}

/// Returns the sum of zero gradients. Only -0 preserves every bit of the gradients added to it.
pub(super) fn nothing(ty: &Type) -> Tensor {
    ops::full_of(ty.dims.clone(), -0.0, ty.dtype)
}

/// Adds an unchanged node with regions, on other operands.
pub(super) fn emit_node(node: &Node, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    emit(&Control::of(node).expect("the node has regions"), &node.regions, inputs)
}
