//! Nodes that transforms add to the graph under construction.

use crate::error::Result;
use crate::ir::{Graph, Node};
use crate::ops::{self, Control};
use crate::tensor::{Dim, Tensor, Type};
use crate::trace::Tracer;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// The tracer that builds the graph.
pub(super) fn tracer() -> Rc<Tracer> {
    Tracer::current().expect("a transform builds its graph by a tracer")
}

/// Adds a node with regions.
pub(super) fn emit(control: &Control, regions: &[Arc<Graph>], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    tracer().control(control, regions.into(), inputs, Location::caller())
}

/// Whether a type is that of a stack: a first axis whose size is known only at run time.
pub(super) fn is_stack(ty: &Type) -> bool {
    ty.dims.first() == Some(&Dim::DYNAMIC)
}

/// Zeros of a type that is not that of a stack.
pub(super) fn zeros(ty: &Type) -> Tensor {
    ops::full_of(ty.dims.clone(), 0, ty.dtype)
}

/// The sum of no gradients: only -0 preserves every bit of what is added to it.
pub(super) fn nothing(ty: &Type) -> Tensor {
    ops::full_of(ty.dims.clone(), -0.0, ty.dtype)
}

/// Adds an unchanged node with regions, on other operands.
pub(super) fn emit_node(node: &Node, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    emit(&Control::of(node).expect("the node has regions"), &node.regions, inputs)
}
