//! Inlining of nodes that only matter to derivatives, after all of these are expanded.

use super::{Pass, PassContext};
use crate::ir::{Graph, rewrite};
use crate::ops::{CUSTOM_VJP, RECOMPUTE};
use std::borrow::Cow;

/// Inlines the graphs of custom derivatives and of recomputation.
pub struct InlineCustom;

impl Pass for InlineCustom {
    fn name(&self) -> &'static str {
        "inline_custom"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        rewrite(graph, |rewriter, node, operands| {
            let is_settled = [&CUSTOM_VJP, &RECOMPUTE].iter().any(|it| it.op() == node.op);
            is_settled.then(|| {
                let body = &node.regions[0];
                rewriter.splice(body, &operands[..body.inputs().len()])
            })
        })
    }
}
