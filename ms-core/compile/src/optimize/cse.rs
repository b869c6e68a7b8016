//! Eliminates common subexpressions: equal nodes on equal operands.

use super::{Pass, PassContext};
use ms_ir::data::{Attrs, Op};
use ms_ir::op::{Effects, definition};
use ms_ir::{Graph, Node, ValueId, Values, rewrite};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Replaces equal nodes by the first of them.
///
/// Nodes are equal if their op, attributes, regions (the same stored graphs) and operands are. Equal starts stay,
/// because a start has one node that ends it.
pub struct Cse;

impl Pass for Cse {
    fn name(&self) -> &'static str {
        "cse"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        let mut seen: FxHashMap<Key<'g>, &'g Node> = FxHashMap::default();
        seen.reserve(graph.len());
        rewrite(graph, |rewriter, node, operands| {
            if node.outputs.is_empty() || definition(node.op).effects.any_of(Effects::PENDING) {
                return None;
            }
            let key = Key { op: node.op, attrs: &node.attrs, regions: &node.regions, operands: operands.into() };
            let first = *seen.entry(key).or_insert(node);
            if std::ptr::eq(first, node) {
                return None;
            }
            Some(first.outputs.iter().map(|&id| rewriter.map(id)).collect::<Values>())
        })
    }
}

/// The identity of a node.
struct Key<'g> {
    op: Op,
    attrs: &'g Attrs,
    regions: &'g [Arc<Graph>],
    operands: SmallVec<[ValueId; 3]>,
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op
            && self.operands == other.operands
            && self.regions.len() == other.regions.len()
            && self.regions.iter().zip(other.regions).all(|(a, b)| Arc::ptr_eq(a, b))
            && self.attrs == other.attrs
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.op.hash(state);
        self.operands.hash(state);
        self.attrs.hash(state);
        for region in self.regions {
            Arc::as_ptr(region).hash(state);
        }
    }
}
