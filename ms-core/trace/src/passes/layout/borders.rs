//! Propagates channels-last layouts across the borders of calls, branches and loops.

use super::{Ordering, in_order, permute_node, permutes};
use ms_compile::optimize::{Dce, Pass, PassContext};
use ms_ir::MapVec;
use ms_ir::{Graph, Node, ValueId, Values};
use ms_ops::ops::{AxisOrder, Control};
use ms_ops::tensor::Type;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// The maximal nesting depth of regions across whose borders layouts are propagated.
const DEEPEST: usize = 16;

/// A node whose regions take and return channels-last images.
#[derive(Clone)]
pub(super) struct Bordered {
    regions: SmallVec<[Arc<Graph>; 1]>,
    /// Whether each input of the regions is channels-last.
    inputs: Vec<bool>,
    /// Whether each result of the node is channels-last.
    results: Vec<bool>,
}

impl Bordered {
    /// Returns whether any layout changes.
    fn changes(&self) -> bool {
        self.inputs.iter().chain(&self.results).any(|it| *it)
    }
}

/// Returns whether a region permutes an input to channels-last.
pub(super) fn takes_last(region: &Graph, input: usize) -> bool {
    let value = region.inputs()[input];
    if !is_image(region, value) {
        return false;
    }
    let axes = AxisOrder::ChannelsLast.axes(region.ty(value).rank());
    region.nodes().any(|(_, it)| it.inputs[..] == [value] && permutes(it, &axes))
}

/// Returns whether a region computes an output in channels-last.
fn gives_last(region: &Graph, output: usize) -> bool {
    let value = region.outputs()[output];
    is_image(region, value) && source_of_first(region, value).is_some()
}

/// Returns whether a value is an image, by its rank. A value of rank 3 may be a stack of transposed matrices, and keeps
/// its layout at a border.
fn is_image(region: &Graph, value: ValueId) -> bool {
    region.ty(value).rank() > 3
}

/// Returns the channels-last value from which this one is permuted to channels-first.
fn source_of_first(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let rank = graph.ty(value).rank();
    let node = graph.producer(value).filter(|_| rank > 2)?;
    permutes(node, &AxisOrder::ChannelsLast.inverse(rank)).then(|| node.inputs[0])
}

/// Returns whether a region of a graph takes or returns channels-last images.
pub(super) fn has_borders(graph: &Graph) -> bool {
    let is_bordered = |region: &Arc<Graph>| {
        (0..region.inputs().len()).any(|it| takes_last(region, it))
            || (0..region.outputs().len()).any(|it| gives_last(region, it))
    };
    graph.nodes().flat_map(|(_, it)| &it.regions).any(is_bordered)
}

impl Ordering<'_> {
    /// Replaces a node with regions by one whose regions take and return channels-last images, where they do not
    /// permute them back. Returns the new results, in channels-first.
    pub(super) fn across_border(
        &mut self,
        graph: &Graph,
        node: &Node,
        operands: &[ValueId],
        context: &PassContext,
    ) -> Option<Values> {
        let control = Control::of(node)?;
        let runs = matches!(control, Control::Call { .. } | Control::Recompute | Control::Branch | Control::Loop(_));
        if !runs || self.depth == DEEPEST {
            return None;
        }
        // Calls of one graph remain calls of one graph.
        let is_call = matches!(control, Control::Call { .. });
        let called = Arc::as_ptr(&node.regions[0]);
        let known = self.called.get(&called).filter(|_| is_call).cloned();
        let bordered = known.unwrap_or_else(|| self.bordered(node, &control, operands, context));
        if is_call {
            self.called.insert(called, bordered.clone());
        }
        if !bordered.changes() {
            return None;
        }
        let mut inputs = SmallVec::from_slice(operands);
        for (input, _) in bordered.inputs.iter().enumerate().filter(|it| *it.1) {
            let at = control.operand(input).expect("an image is an operand");
            inputs[at] = self.last_of(inputs[at]);
        }
        let ty = |(at, &it): (usize, &ValueId)| match bordered.results[at] {
            true => in_order(graph.ty(it), AxisOrder::ChannelsLast),
            false => graph.ty(it).clone(),
        };
        let types: Vec<Type> = node.outputs.iter().enumerate().map(ty).collect();
        let new = Node { inputs, regions: bordered.regions.clone(), ..node.clone() };
        let mut results = self.rewriter.add(new, types);
        for (result, _) in results.iter_mut().zip(&bordered.results).filter(|it| *it.1) {
            *result = self.first_of(*result, node)[0];
        }
        Some(results)
    }

    /// Builds the regions of a node with channels-last images at the border, wherever that removes permutations inside.
    fn bordered(&self, node: &Node, control: &Control, operands: &[ValueId], context: &PassContext) -> Bordered {
        let carries = control.as_loop().map_or(0, |it| it.carries);
        let body = node.regions.last().expect("the node has a region");
        let is_last = |input: usize| {
            let Some(operand) = control.operand(input) else { return false };
            self.last.contains_key(&operands[operand])
                || node.regions.iter().any(|it| takes_last(it, input))
                || (input < carries && gives_last(body, input))
        };
        let mut inputs: Vec<bool> = (0..body.inputs().len()).map(is_last).collect();
        let gives = |it: &Arc<Graph>| (0..it.outputs().len()).any(|output| gives_last(it, output));
        if !inputs.iter().any(|it| *it) && !node.regions.iter().any(gives) {
            return Bordered { regions: node.regions.clone(), inputs, results: vec![false; node.outputs.len()] };
        }
        loop {
            let regions: Vec<Region> = node.regions.map_vec(|it| self.region(it, &inputs, context));
            let mut results = vec![None; node.outputs.len()];
            for (number, region) in regions.iter().enumerate() {
                for (output, last) in region.last.iter().enumerate() {
                    if let Some(result) = control.result(number, output) {
                        let all: &mut Option<bool> = &mut results[result];
                        *all = Some(all.unwrap_or(true) && last.is_some());
                    }
                }
            }
            let mut results: Vec<bool> = results.into_iter().map(|it| it == Some(true)).collect();
            // The layout of a carry is the same at the start and at the end of an iteration.
            (0..carries).for_each(|it| results[it] &= inputs[it]);
            let regions: Vec<(Graph, Vec<usize>)> = regions
                .into_iter()
                .enumerate()
                .map(|(number, it)| it.finish(|output| control.result(number, output).is_some_and(|at| results[at])))
                .collect();
            let stays = |it: usize| {
                inputs[it] && (it >= carries || results[it]) && !regions.iter().any(|region| region.1.contains(&it))
            };
            let remaining: Vec<bool> = (0..inputs.len()).map(stays).collect();
            if remaining == inputs {
                return Bordered { regions: regions.into_iter().map(|it| Arc::new(it.0)).collect(), inputs, results };
            }
            inputs = remaining;
        }
    }

    /// Rebuilds a region so that the inputs marked in `inputs` are channels-last.
    fn region(&self, region: &Graph, inputs: &[bool], context: &PassContext) -> Region {
        let mut from = Graph::new(region.name());
        let ty = |(at, &it): (usize, &ValueId)| match inputs[at] {
            true => in_order(region.ty(it), AxisOrder::ChannelsLast),
            false => region.ty(it).clone(),
        };
        let entering: Vec<ValueId> = region.inputs().iter().enumerate().map(ty).map(|it| from.add_input(it)).collect();
        from.share_input_names(region);
        let mut first = entering.clone();
        for (at, _) in inputs.iter().enumerate().filter(|it| *it.1) {
            let axes = AxisOrder::ChannelsLast.inverse(from.ty(entering[at]).rank());
            let node = permute_node(entering[at], &axes);
            let id = from.add_node(node, [region.ty(region.inputs()[at]).clone()]);
            first[at] = from.node(id).outputs[0];
        }
        let outputs = from.inline(region, &first);
        from.set_outputs(outputs);
        let mut inner = Ordering { depth: self.depth + 1, ..Ordering::new(&from, self.order) };
        for (at, _) in inputs.iter().enumerate().filter(|it| *it.1) {
            inner.rewriter.keep();
            inner.last.insert(first[at], entering[at]);
        }
        for (_, node) in from.nodes().skip(inputs.iter().filter(|it| **it).count()) {
            inner.replace_or_keep(&from, node, context);
        }
        let outputs: Vec<ValueId> = from.outputs().map_vec(|&it| inner.rewriter.map(it));
        let last = |&it: &ValueId| {
            let image = || is_image(inner.rewriter.graph(), it) || !inner.last.is_empty();
            inner.last.get(&it).copied().or_else(|| source_of_first(inner.rewriter.graph(), it).filter(|_| image()))
        };
        let last = outputs.map_vec(last);
        Region { graph: inner.rewriter.finish().into_owned(), last }
    }
}

/// A region whose inputs have another layout.
struct Region {
    graph: Graph,
    /// The channels-last value of each output, if there is one.
    last: Vec<Option<ValueId>>,
}

impl Region {
    /// Returns the graph with the outputs that `is_last` selects in channels-last, and the inputs that it permutes to
    /// channels-first.
    fn finish(self, is_last: impl Fn(usize) -> bool) -> (Graph, Vec<usize>) {
        let Self { mut graph, last } = self;
        let output = |(at, &it): (usize, &ValueId)| last[at].filter(|_| is_last(at)).unwrap_or(it);
        let outputs: Vec<ValueId> = graph.outputs().iter().enumerate().map(output).collect();
        graph.set_outputs(outputs);
        let graph = match Dce.run(&graph, &PassContext::default()) {
            Cow::Borrowed(_) => graph,
            Cow::Owned(new) => new,
        };
        let permuted = |input: &usize| {
            let value = graph.inputs()[*input];
            let rank = graph.ty(value).rank();
            let permutes = |it: &Node| permutes(it, &AxisOrder::ChannelsLast.inverse(rank));
            rank > 2 && graph.nodes().any(|(_, it)| it.inputs[..] == [value] && permutes(it))
        };
        let permuted = (0..graph.inputs().len()).filter(permuted).collect();
        (graph, permuted)
    }
}
