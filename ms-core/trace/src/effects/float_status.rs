//! Lowers float status in graphs: checks the results of ops between a clear and a get.

use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Node, NodeId, ValueId, count_nodes};
use ms_ops::ops::{
    self, ALL, ASSIGN, BROADCAST_TO, BroadcastToAttrs, CAST, CLEAR_FLOAT_STATUS, CONSTANT, CastAttrs, ConstantAttrs,
    Control, Effects, GET_FLOAT_STATUS, ISFINITE, LOGICAL_AND, LOGICAL_NOT, Loop, Lowering, OpDef, ReduceAttrs,
    STOP_GRADIENT, TENSOR_MOVE, has_effect,
};
use ms_ops::tensor::{Attrs, DType, Literal, Op, Scalar, Type};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// Computes float statuses from the results of the ops between clear and get. Transforms are already expanded and calls
/// inlined, so the nodes are in program order.
///
/// # Errors
/// [`Code::Argument`] for a status that is cleared and read in different graphs.
pub fn float_status(graph: &Graph) -> Result<Cow<'_, Graph>> {
    if !has_effect(graph, Effects::MONITORS) {
        return Ok(Cow::Borrowed(graph));
    }
    Watch::plain(graph).map(Cow::Owned)
}

/// Returns whether a graph reads a float status.
pub fn has_float_status(graph: &Graph) -> bool {
    count_nodes(graph, |it| it.op == GET_FLOAT_STATUS.op()) > 0
}

/// Rewrites one graph.
struct Watch<'g> {
    from: &'g Graph,
    to: Graph,
    map: Vec<ValueId>,
    /// Whether all results of each checked node were finite.
    finite: Vec<Option<ValueId>>,
    /// Whether each value is read.
    read: Vec<bool>,
}

fn flag() -> Type {
    Type::of(DType::Bool, &[])
}

impl<'g> Watch<'g> {
    fn new(from: &'g Graph) -> Self {
        let mut to = Graph::with_capacity_of(from);
        let mut map = vec![ValueId(u32::MAX); from.value_count()];
        for &input in from.inputs() {
            map[input.0 as usize] = to.add_input(from.ty(input).clone());
        }
        to.share_input_names(from);
        let mut read = vec![false; from.value_count()];
        let uses = from.nodes().flat_map(|(_, node)| &node.inputs).chain(from.outputs());
        uses.for_each(|it| read[it.0 as usize] = true);
        Self { from, to, map, finite: vec![None; from.len()], read }
    }

    fn add(&mut self, def: &'static OpDef, attrs: Attrs, inputs: &[ValueId]) -> Result<ValueId> {
        let results = {
            let types: SmallVec<[&Type; 3]> = inputs.iter().map(|&it| self.to.ty(it)).collect();
            ops::infer(def, &attrs, &[], &types)?
        };
        let id = self.to.add_node(Node::new(def.op(), attrs, inputs.iter().copied()), results);
        Ok(self.to.node(id).outputs[0])
    }

    /// Returns the clear from which a status comes.
    fn cleared(&self, status: ValueId) -> Option<NodeId> {
        const PASSED: [Op; 4] = [STOP_GRADIENT.op(), TENSOR_MOVE.op(), ASSIGN.op(), GET_FLOAT_STATUS.op()];
        let mut value = status;
        loop {
            let ms_ir::Def::Result(id, _) = self.from.value(value).def else { return None };
            let node = self.from.node(id);
            match node.op {
                it if it == CLEAR_FLOAT_STATUS.op() => return Some(id),
                it if PASSED.contains(&it) => value = node.inputs[0],
                _ => return None,
            }
        }
    }

    /// Returns every get with its clear. Every clear has a get.
    fn windows(&self) -> Result<Vec<(NodeId, NodeId)>> {
        let refuse = |node: &Node| {
            let message = "a float status is cleared and read in different graphs";
            let help = "clear and read it in the same function, branch or loop";
            let error = Error::new(Code::Argument, message).with_op(node.op.name()).help(help);
            match node.location {
                Some(location) => error.at(location),
                None => error,
            }
        };
        let mut windows = Vec::new();
        for (id, node) in self.from.nodes().filter(|(_, node)| node.op == GET_FLOAT_STATUS.op()) {
            let begin = self.cleared(node.inputs[0]).ok_or_else(|| refuse(node))?;
            // A second get returns the result of the first one.
            let begin_of = |it: &(NodeId, NodeId)| it.0 == begin;
            windows.push(windows.iter().find(|it| begin_of(it)).map_or((begin, id), |_| (id, id)));
        }
        let is_open = |id: NodeId| !windows.iter().any(|it| it.0 == id);
        let clears = self.from.nodes().filter(|(_, node)| node.op == CLEAR_FLOAT_STATUS.op());
        match clears.into_iter().find(|it| is_open(it.0)) {
            Some((_, node)) => Err(refuse(node)),
            None => Ok(windows),
        }
    }

    /// Returns the graph with checks of the nodes between a clear and a get.
    fn plain(graph: &Graph) -> Result<Graph> {
        let mut watch = Watch::new(graph);
        watch.nodes(false)?;
        watch.finish(None)
    }

    /// Returns a graph in which all nodes are checked. Whether all results were finite is a carry at a position, or the
    /// last output.
    fn whole(graph: &Graph, carry: Option<usize>) -> Result<Graph> {
        let mut watch = Watch::new(graph);
        let before = carry.map(|_| watch.to.add_input(flag()));
        watch.nodes(true)?;
        let inside: Vec<ValueId> = watch.finite.iter().flatten().copied().collect();
        let all = watch.every(before.into_iter().chain(inside).collect())?;
        let mut graph = watch.finish(Some((carry, all)))?;
        if let Some(at) = carry {
            insert_last_input(&mut graph, at);
        }
        Ok(graph)
    }

    fn nodes(&mut self, whole: bool) -> Result<()> {
        let windows = self.windows()?;
        let watched = |id: NodeId| whole || windows.iter().any(|it| it.0 < id && id < it.1);
        let from = self.from;
        for (id, node) in from.nodes() {
            let inputs: SmallVec<[ValueId; 3]> = node.inputs.iter().map(|it| self.map[it.0 as usize]).collect();
            if node.op == GET_FLOAT_STATUS.op() {
                let window = windows.iter().find(|it| it.1 == id).expect("every get has a window");
                self.map[node.outputs[0].0 as usize] =
                    if window.0 == id { inputs[0] } else { self.status(window.0, id)? };
                continue;
            }
            self.node(id, node, inputs, watched(id))?;
        }
        Ok(())
    }

    /// Returns the graph with the original outputs and one more.
    fn finish(mut self, more: Option<(Option<usize>, ValueId)>) -> Result<Graph> {
        let mut outputs: Vec<ValueId> = self.from.outputs().map_vec(|it| self.map[it.0 as usize]);
        if let Some((at, value)) = more {
            outputs.insert(at.unwrap_or(outputs.len()), value);
        }
        self.to.set_outputs(outputs);
        Ok(self.to)
    }

    /// Copies a node, and checks its results.
    fn node(&mut self, id: NodeId, node: &Node, inputs: SmallVec<[ValueId; 3]>, watched: bool) -> Result<()> {
        let types: Vec<Type> = node.outputs.map_vec(|&it| self.from.ty(it).clone());
        let mut copy = Node { inputs, ..node.clone() };
        if !node.regions.is_empty() && watched {
            return self.holder(id, copy, types);
        }
        copy.regions = copy.regions.iter().map(|it| Watch::plain(it).map(Arc::new)).collect::<Result<_>>()?;
        copy.outputs.clear();
        let new = self.to.add_node(copy, types);
        for (old, &new) in node.outputs.iter().zip(&self.to.node(new).outputs.clone()) {
            self.map[old.0 as usize] = new;
        }
        if watched && node.op != CONSTANT.op() {
            // Outputs that a composite only has for its derivative are not computed for a check alone.
            let is_composite = matches!(ops::definition(node.op).lowering, Lowering::Composite(_));
            let is_result = |it: &ValueId| !is_composite || *it == node.outputs[0] || self.read[it.0 as usize];
            let is_checked = |it: &&ValueId| self.from.ty(**it).dtype.is_float() && is_result(it);
            let floats = node.outputs.iter().filter(is_checked);
            let floats: Vec<ValueId> = floats.map(|it| self.map[it.0 as usize]).collect();
            let finite = floats.into_iter().map(|it| self.finite(it)).collect::<Result<Vec<_>>>()?;
            if !finite.is_empty() {
                self.finite[id.0 as usize] = Some(self.every(finite)?);
            }
        }
        Ok(())
    }

    /// Copies a node with graphs, each of which returns whether all of its results were finite.
    fn holder(&mut self, id: NodeId, mut node: Node, mut types: Vec<Type>) -> Result<()> {
        let olds = std::mem::take(&mut node.outputs);
        let control = Control::of(&node);
        let repeated = control.as_ref().and_then(Control::as_loop);
        let (operand, result) = match (&control, repeated) {
            (Some(Control::Branch), _) => (None, olds.len()),
            (_, Some(at)) => {
                node.attrs = Control::Loop(Loop { carries: at.carries + 1, ..at }).attrs();
                (Some(at.first_carry() + at.carries), at.carries)
            }
            _ => {
                let message = format!("`{}` stands between the clear and the get of a float status", node.op.name());
                return Err(Error::new(Code::Argument, message));
            }
        };
        let is_while = repeated.is_some_and(|it| it.is_while());
        let region = |(i, it): (usize, &Arc<Graph>)| {
            if is_while && i == 0 {
                let mut condition = (**it).clone();
                condition.add_input(flag());
                insert_last_input(&mut condition, result);
                return Ok(Arc::new(condition));
            }
            Watch::whole(it, operand.map(|_| result)).map(Arc::new)
        };
        node.regions = node.regions.iter().enumerate().map(region).collect::<Result<_>>()?;
        if let Some(at) = operand {
            let truth = ConstantAttrs::attrs(Literal::scalar(Scalar::Bool(true), DType::Bool));
            let begin = self.add(&CONSTANT, truth, &[])?;
            node.inputs.insert(at, begin);
        }
        types.insert(result, flag());
        let new = self.to.add_node(node, types);
        let mut news: Vec<ValueId> = self.to.node(new).outputs.to_vec();
        self.finite[id.0 as usize] = Some(news.remove(result));
        for (old, new) in olds.iter().zip(news) {
            self.map[old.0 as usize] = new;
        }
        Ok(())
    }

    /// Returns whether a value is finite everywhere.
    fn finite(&mut self, value: ValueId) -> Result<ValueId> {
        let rank = self.to.ty(value).rank();
        let finite = self.add(&ISFINITE, Attrs::none(), &[value])?;
        if rank == 0 {
            return Ok(finite);
        }
        let axes: Vec<usize> = (0..rank).collect();
        self.add(&ALL, ReduceAttrs::attrs(&axes[..], false), &[finite])
    }

    /// Returns the conjunction of these values.
    fn every(&mut self, values: Vec<ValueId>) -> Result<ValueId> {
        let mut values = values.into_iter();
        let Some(first) = values.next() else {
            let truth = ConstantAttrs::attrs(Literal::scalar(Scalar::Bool(true), DType::Bool));
            return self.add(&CONSTANT, truth, &[]);
        };
        values.try_fold(first, |all, it| self.add(&LOGICAL_AND, Attrs::none(), &[all, it]))
    }

    /// Returns the status of the nodes between two nodes.
    fn status(&mut self, begin: NodeId, end: NodeId) -> Result<ValueId> {
        let between = self.finite[begin.0 as usize..end.0 as usize].iter().flatten().copied().collect();
        let all = self.every(between)?;
        let met = self.add(&LOGICAL_NOT, Attrs::none(), &[all])?;
        let met = self.add(&CAST, CastAttrs::attrs(DType::F32), &[met])?;
        self.add(&BROADCAST_TO, BroadcastToAttrs::attrs(&[ops::STATUS_SIZE][..]), &[met])
    }
}

/// Moves the last input to a position.
fn insert_last_input(graph: &mut Graph, at: usize) {
    let last = graph.inputs().len() - 1;
    let order: Vec<usize> = (0..at).chain([last]).chain(at..last).collect();
    graph.reorder_inputs(&order);
}
