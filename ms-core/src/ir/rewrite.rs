//! One walk over a graph that builds its successor, or finds that there is nothing to build.

use super::graph::{Graph, Node, NodeId, ValueId};
use crate::tensor::Type;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Values that stand for the results of a node.
pub type Values = SmallVec<[ValueId; 1]>;

/// Builds a graph from another one, whose nodes are taken in order: each is kept, replaced by
/// values, or dropped. Nothing is copied before the first node that is not kept.
///
/// Rules look at operands in [`Rewriter::graph`], where earlier replacements are done already.
pub struct Rewriter<'g> {
    from: &'g Graph,
    to: Option<Graph>,
    /// From values of `from` to values of `to`; unused while there is no `to`.
    map: Vec<ValueId>,
    /// The node of `from` whose turn it is.
    at: u32,
}

/// Applies a rule to every node in order: values that stand for its results, or nothing to keep it.
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
    /// A rewriter before the first node's turn.
    pub fn new(from: &'g Graph) -> Self {
        let mut rewriter = Self { from, to: None, map: Vec::new(), at: 0 };
        // Values keep their numbers in a copy only where inputs come first.
        let ids = from.inputs().iter().chain(from.nodes().flat_map(|(_, node)| &node.outputs));
        if !ids.map(|id| id.0).eq(0..from.value_count() as u32) {
            rewriter.fork();
        }
        rewriter
    }

    /// What has been built: nodes of the source up to its turn, while nothing was changed.
    pub fn graph(&self) -> &Graph {
        self.to.as_ref().unwrap_or(self.from)
    }

    /// The value of [`Rewriter::graph`] that stands for a value of the source.
    pub fn map(&self, id: ValueId) -> ValueId {
        if self.to.is_some() { self.map[id.0 as usize] } else { id }
    }

    /// The operands of a node of the source, as values of [`Rewriter::graph`].
    pub fn operands(&self, node: &Node) -> SmallVec<[ValueId; 3]> {
        node.inputs.iter().map(|&id| self.map(id)).collect()
    }

    /// Keeps the node whose turn it is.
    pub fn keep(&mut self) {
        if let Some(to) = &mut self.to {
            let node = self.from.node(NodeId(self.at));
            to.inline_node(self.from, node, &mut self.map);
        }
        self.at += 1;
    }

    /// Lets values of [`Rewriter::graph`] stand for the results of the node whose turn it is;
    /// no values drop it, where nothing uses them.
    pub fn replace(&mut self, values: &[ValueId]) {
        self.fork();
        for (&old, &new) in self.from.node(NodeId(self.at)).outputs.iter().zip(values) {
            self.map[old.0 as usize] = new;
        }
        self.at += 1;
    }

    /// Adds a node on values of [`Rewriter::graph`], and gives its results.
    pub fn add(&mut self, node: Node, types: impl IntoIterator<Item = Type>) -> Values {
        self.fork();
        let to = self.to.as_mut().expect("just forked");
        let id = to.add_node(node, types);
        to.node(id).outputs.clone()
    }

    /// Adds all nodes of `body`, whose inputs are the operands, and gives its outputs.
    pub fn splice(&mut self, body: &Graph, operands: &[ValueId]) -> Values {
        self.fork();
        let to = self.to.as_mut().expect("just forked");
        to.inline(body, operands)
    }

    /// The graph that was built, after the last node's turn.
    pub fn finish(self) -> Cow<'g, Graph> {
        match self.to {
            None => Cow::Borrowed(self.from),
            Some(mut to) => {
                to.set_outputs(self.from.outputs().iter().map(|id| self.map[id.0 as usize]));
                Cow::Owned(to)
            }
        }
    }

    /// Begins the copy, with the nodes that were kept.
    fn fork(&mut self) {
        if self.to.is_some() {
            return;
        }
        let mut to = Graph::with_room_of(self.from);
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
