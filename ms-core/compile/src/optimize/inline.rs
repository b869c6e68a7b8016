//! Inlines calls.

use super::{Pass, PassContext};
use ms_ir::op::Control;
use ms_ir::{Graph, Node, rewrite};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;

/// The maximal number of nodes of a graph; calls that would make it larger are not inlined.
const LARGEST: usize = 1 << 20;

/// Replaces calls by the nodes of the called graphs, as [`PassContext::inline_limit`] permits. Calls that are marked
/// `no_inline` stay, unless [`PassContext::inline_marked`] is set. Inlines one level: a call in a called graph becomes
/// a call of the caller, unless it was inlined there before.
pub struct Inline;

impl Pass for Inline {
    fn name(&self) -> &'static str {
        "inline"
    }

    fn run<'g>(&self, graph: &'g Graph, context: &PassContext) -> Cow<'g, Graph> {
        let mut calls: FxHashMap<*const Graph, usize> = FxHashMap::default();
        let open = |node: &Node| match Control::of(node) {
            Some(Control::Call { inline }) => inline || context.inline_marked,
            _ => false,
        };
        for (_, node) in graph.nodes().filter(|(_, node)| open(node)) {
            *calls.entry(Arc::as_ptr(&node.regions[0])).or_default() += 1;
        }
        let mut size = graph.len();
        rewrite(graph, |rewriter, node, operands| {
            if !open(node) {
                return None;
            }
            let callee = &node.regions[0];
            let wanted = callee.len() <= context.inline_limit || calls[&Arc::as_ptr(callee)] == 1;
            if !wanted || size + callee.len() > LARGEST {
                return None;
            }
            size += callee.len();
            Some(rewriter.splice(callee, operands))
        })
    }
}
