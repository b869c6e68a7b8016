//! The ops of this crate and those that programs declare, as the compiler finds them.

use crate::ops::primitive::cast::CastAttrs;
use crate::ops::{
    CALL, CALL_NO_INLINE, CAST, COMPOSITES, CUSTOM_VJP, Control, IF, JVP, OpDef, PRIMITIVES, RECOMPUTE, SCAN,
    TransformNode, VALUE_AND_GRAD, VMAP, WHILE, constant_node, custom, full_node, literal_of, select_node,
};
use crate::ops::{custom_vjp, jvp, scan, value_and_grad, vmap, while_loop};
use crate::tensor::{Attrs, DType, Dim, Literal, Op};
use ms_ir::op::{Dialect, RegisteredDialect};
use ms_ir::{Node, ValueId};

struct Ops;

inventory::submit! { RegisteredDialect(&Ops) }

impl Dialect for Ops {
    fn definitions(&self) -> [&'static [&'static OpDef]; 2] {
        [PRIMITIVES, COMPOSITES]
    }

    fn custom_by_number(&self, number: u16) -> Option<&'static OpDef> {
        custom::by_number(number)
    }

    fn custom_by_name(&self, name: &str) -> Option<&'static OpDef> {
        custom::by_name(name)
    }

    fn custom_by_source(&self, name: &str, source: u64) -> Option<&'static OpDef> {
        custom::by_source(name, source)
    }

    fn control(&self, control: &Control) -> (Op, Attrs) {
        match control {
            Control::Call { inline: true } => (CALL.op(), Attrs::none()),
            Control::Call { inline: false } => (CALL_NO_INLINE.op(), Attrs::none()),
            Control::Recompute => (RECOMPUTE.op(), Attrs::none()),
            Control::Branch => (IF.op(), Attrs::none()),
            Control::Loop(at) if at.is_while() => (WHILE.op(), while_loop::attrs(at)),
            Control::Loop(at) => (SCAN.op(), scan::attrs(at)),
            Control::CustomVjp(at) => (CUSTOM_VJP.op(), custom_vjp::attrs(at)),
            Control::TransformNode(TransformNode::ValueAndGrad { wrt, results, seeded }) => {
                (VALUE_AND_GRAD.op(), value_and_grad::ValueAndGradAttrs::attrs(&wrt[..], *results, *seeded))
            }
            Control::TransformNode(TransformNode::Jvp { wrt, results }) => {
                (JVP.op(), jvp::JvpAttrs::attrs(&wrt[..], *results))
            }
            Control::TransformNode(TransformNode::Vmap { size, operands, results }) => {
                (VMAP.op(), vmap::attrs(*size, operands, results))
            }
        }
    }

    fn constant(&self, value: Literal) -> Node {
        constant_node(value)
    }

    fn full(&self, element: Literal, dims: &[Dim]) -> Node {
        full_node(element, dims)
    }

    fn select(&self, condition: ValueId, yes: ValueId, no: ValueId) -> Node {
        select_node(condition, yes, no)
    }

    fn copy(&self, dtype: DType) -> (Op, Attrs) {
        (CAST.op(), CastAttrs::attrs(dtype))
    }

    fn literal_of<'n>(&self, node: &'n Node) -> Option<&'n Literal> {
        literal_of(node)
    }
}
