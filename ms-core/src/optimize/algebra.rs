//! Algebraic identities that hold to the bit.

use super::rewrite::{Rewriter, Values, rewrite};
use super::uniform::Uniform;
use super::{Pass, PassContext};
use crate::ir::{Graph, Node, Type, ValueId};
use crate::ops::{ADD, BROADCAST_TO};
use crate::tensor::{Attrs, Scalar};
use smallvec::smallvec;
use std::borrow::Cow;

/// Replaces arithmetic by its operands where the result has the same bits.
///
/// Of floats `x + 0` is not `x`: it turns -0 into +0, while `x + -0` keeps every value.
pub struct Algebra;

impl Pass for Algebra {
    fn name(&self) -> &'static str {
        "algebra"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        let mut uniform = Uniform::default();
        rewrite(graph, |rewriter, node, operands| {
            let [result] = node.outputs[..] else { return None };
            let ty = graph.ty(result);
            let element = |uniform: &mut Uniform, id| uniform.element(rewriter.graph(), id);
            if node.op == ADD.op() {
                let (a, b) = (operands[0], operands[1]);
                if element(&mut uniform, b).is_some_and(is_zero_of_sum) {
                    return stand_for(rewriter, a, ty, node);
                }
                if element(&mut uniform, a).is_some_and(is_zero_of_sum) {
                    return stand_for(rewriter, b, ty, node);
                }
            }
            None
        })
    }
}

/// Whether adding a number changes no value.
fn is_zero_of_sum(it: Scalar) -> bool {
    match it {
        Scalar::Float(it) => it == 0.0 && it.is_sign_negative(),
        other => !other.as_bool(),
    }
}

/// A value in the place of a node's result, broadcast where the node did that.
fn stand_for(rewriter: &mut Rewriter<'_>, value: ValueId, ty: &Type, node: &Node) -> Option<Values> {
    if rewriter.graph().ty(value) == ty {
        return Some(smallvec![value]);
    }
    let shape = ty.shape()?;
    let broadcast = Node::new(BROADCAST_TO.op(), Attrs::new([shape[..].into()]), [value]);
    Some(rewriter.add(Node { location: node.location, ..broadcast }, [ty.clone()]))
}
