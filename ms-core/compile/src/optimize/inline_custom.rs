//! Inlines nodes that matter only to derivatives, after all derivatives are expanded.

use super::{Pass, PassContext};
use ms_ir::op::Control;
use ms_ir::{Graph, rewrite};
use std::borrow::Cow;

/// Inlines the graphs of custom derivatives and of recomputation.
pub struct InlineCustom;

impl Pass for InlineCustom {
    fn name(&self) -> &'static str {
        "inline_custom"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        rewrite(graph, |rewriter, node, operands| match Control::of(node)? {
            Control::CustomVjp(_) | Control::Recompute => {
                let body = &node.regions[0];
                Some(rewriter.splice(body, &operands[..body.inputs().len()]))
            }
            Control::Call { .. } | Control::Branch | Control::Loop(_) | Control::TransformNode(_) => None,
        })
    }
}
