//! Rewrites a graph in one pass, with copy on write.

use super::graph::{Graph, Node, NodeId, ValueId};
use crate::data::Type;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::panic::Location;

/// Values that replace the results of a node.
pub type Values = SmallVec<[ValueId; 1]>;

/// Builds a graph from a source graph, whose nodes are visited in order. Each is kept, replaced by values, or removed.
/// Nothing is copied before the first node that is not kept.
///
/// Rules see operands in [`Rewriter::graph`], with earlier replacements applied.
pub struct Rewriter<'g> {
    from: &'g Graph,
    to: Option<Graph>,
    /// Maps values of `from` to values of `to`; empty while there is no `to`.
    map: Vec<ValueId>,
    /// The current node of `from`.
    at: u32,
}

/// Applies a rule to every node in order. The rule returns the values that replace the node's results, or `None` to
/// keep it.
pub fn rewrite<'g>(
    graph: &'g Graph,
    mut rule: impl FnMut(&mut Rewriter<'g>, &'g Node, &[ValueId]) -> Option<Values>,
) -> Cow<'g, Graph> {
    let mut rewriter = Rewriter::new(graph);
    for (_, node) in graph.nodes() {
        let operands = rewriter.operands(node);
        match rule(&mut rewriter, node, &operands) {
            Some(values) => rewriter.replace(&values),
            None => rewriter.keep(),
        }
    }
    rewriter.finish()
}

impl<'g> Rewriter<'g> {
    /// Creates a rewriter at the first node.
    pub fn new(from: &'g Graph) -> Self {
        let mut rewriter = Self { from, to: None, map: Vec::new(), at: 0 };
        // Values keep their ids in a copy only if inputs come first.
        let ids = from.inputs().iter().chain(from.nodes().flat_map(|(_, node)| &node.outputs));
        if !ids.map(|id| id.0).eq(0..from.value_count() as u32) {
            rewriter.fork();
        }
        rewriter
    }

    /// Returns the graph built so far; the source itself while nothing has changed.
    pub fn graph(&self) -> &Graph {
        self.to.as_ref().unwrap_or(self.from)
    }

    /// Returns the value of [`Rewriter::graph`] that replaces a value of the source.
    pub fn map(&self, id: ValueId) -> ValueId {
        if self.to.is_some() { self.map[id.0 as usize] } else { id }
    }

    /// Returns the operands of a node of the source as values of [`Rewriter::graph`].
    pub fn operands(&self, node: &Node) -> SmallVec<[ValueId; 3]> {
        let mut operands = SmallVec::from_slice(&node.inputs);
        if self.to.is_some() {
            operands.iter_mut().for_each(|it: &mut ValueId| *it = self.map[it.0 as usize]);
        }
        operands
    }

    /// Keeps the current node.
    pub fn keep(&mut self) {
        if let Some(to) = &mut self.to {
            let node = self.from.node(NodeId(self.at));
            to.inline_node(self.from, node, &mut self.map);
        }
        self.at += 1;
    }

    /// Replaces the results of the current node by values of [`Rewriter::graph`]. Without values the node is removed,
    /// which requires that its results have no uses.
    pub fn replace(&mut self, values: &[ValueId]) {
        self.fork();
        for (&old, &new) in self.from.node(NodeId(self.at)).outputs.iter().zip(values) {
            self.map[old.0 as usize] = new;
        }
        self.at += 1;
    }

    /// Adds a node on values of [`Rewriter::graph`], and returns its results.
    pub fn add(&mut self, node: Node, types: impl IntoIterator<Item = Type>) -> Values {
        self.fork();
        let to = self.to.as_mut().expect("just forked");
        let id = to.add_node(node, types);
        to.node(id).outputs.clone()
    }

    /// Inlines `body` with the operands as its inputs, and returns its outputs.
    pub fn splice(&mut self, body: &Graph, operands: &[ValueId]) -> Values {
        self.fork();
        let to = self.to.as_mut().expect("just forked");
        to.inline(body, operands)
    }

    /// Inlines like [`Rewriter::splice`], and attributes the nodes to a source location.
    pub fn splice_at(
        &mut self,
        body: &Graph,
        operands: &[ValueId],
        location: Option<&'static Location<'static>>,
    ) -> Values {
        self.fork();
        let to = self.to.as_mut().expect("just forked");
        to.inline_at(body, operands, location)
    }

    /// Returns the rewritten graph, after the last node.
    pub fn finish(self) -> Cow<'g, Graph> {
        match self.to {
            None => Cow::Borrowed(self.from),
            Some(mut to) => {
                to.set_outputs(self.from.outputs().iter().map(|id| self.map[id.0 as usize]));
                Cow::Owned(to)
            }
        }
    }

    /// Starts the copy with the nodes kept so far.
    fn fork(&mut self) {
        if self.to.is_some() {
            return;
        }
        let mut to = Graph::with_capacity_of(self.from);
        self.map = vec![ValueId(u32::MAX); self.from.value_count()];
        for &id in self.from.inputs() {
            self.map[id.0 as usize] = to.add_input(self.from.ty(id).clone());
        }
        to.share_input_names(self.from);
        self.to = Some(to);
        for _ in 0..std::mem::take(&mut self.at) {
            self.keep();
        }
    }
}
