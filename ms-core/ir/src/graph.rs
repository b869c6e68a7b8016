//! Defines graphs: typed SSA nodes in an arena.

use crate::MapVec;
use crate::data::{Attrs, Op, Type};
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::Arc;

/// A node of a [`Graph`]. Nodes are numbered in an order in which they can run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// A value of a [`Graph`]: an input, or a result of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ValueId(pub u32);

/// The definition of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Def {
    /// The graph's input at this position.
    Input(u32),
    /// The node's result at this position.
    Result(NodeId, u32),
}

/// The type and the definition of a value.
#[derive(Clone, PartialEq, Debug)]
pub struct ValueData {
    /// Dtype and dimensions.
    pub ty: Type,
    /// The definition.
    pub def: Def,
}

/// An op with its attributes, regions, operands and results.
#[derive(Debug)]
pub struct Node {
    /// The op.
    pub op: Op,
    /// The attributes.
    pub attrs: Attrs,
    /// Sub-graphs of control flow, calls and transforms, which refer only to their inputs.
    pub regions: SmallVec<[Arc<Graph>; 1]>,
    /// Operands.
    pub inputs: SmallVec<[ValueId; 3]>,
    /// Results.
    pub outputs: SmallVec<[ValueId; 1]>,
    /// The user's source location; not part of the graph's identity.
    pub location: Option<&'static Location<'static>>,
    /// The library function that the user called there, if it differs from the op; not part of the graph's identity.
    pub called: Option<&'static str>,
}

impl Clone for Node {
    fn clone(&self) -> Self {
        // Copies all elements at once; cloning a small vector copies one element at a time.
        Self {
            op: self.op,
            attrs: self.attrs.clone(),
            regions: if self.regions.is_empty() { SmallVec::new() } else { self.regions.clone() },
            inputs: SmallVec::from_slice(&self.inputs),
            outputs: SmallVec::from_slice(&self.outputs),
            location: self.location,
            called: self.called,
        }
    }
}

/// A function on tensors: inputs, nodes in topological order, outputs.
///
/// Plain data: no closures, no device. Cloning copies the arenas and shares the regions.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    name: String,
    nodes: Vec<Node>,
    values: Vec<ValueData>,
    inputs: Vec<ValueId>,
    /// The names of the inputs, shared by graphs derived from each other. Shorter than `inputs` if the last inputs are
    /// unnamed.
    names: Option<Arc<Vec<Option<Arc<str>>>>>,
    outputs: Vec<ValueId>,
}

impl Graph {
    /// Creates a graph without inputs, nodes and outputs.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Creates a graph from stored arenas, with unnamed inputs. The arenas are unchecked until
    /// [`verify_structure`](crate::verify_structure) accepts the graph.
    pub fn from_parts(
        name: impl Into<String>,
        nodes: Vec<Node>,
        values: Vec<ValueData>,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) -> Self {
        Self { name: name.into(), nodes, values, inputs, names: None, outputs }
    }

    /// Creates an empty graph with the name of `other` and capacity for its nodes and values.
    pub fn with_capacity_of(other: &Graph) -> Self {
        let (nodes, values) = (Vec::with_capacity(other.nodes.len()), Vec::with_capacity(other.values.len()));
        Self { name: other.name.clone(), nodes, values, ..Self::default() }
    }

    /// Returns the name in dumps and reports; not part of the graph's identity.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the inputs.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// Returns the name of the input at a position, for dumps. It is not part of the graph's identity, and not
    /// necessarily unique.
    pub fn input_name(&self, at: usize) -> Option<&Arc<str>> {
        self.input_names().get(at)?.as_ref()
    }

    /// Returns the names of the inputs, in order; fewer than inputs if the last ones are unnamed.
    pub fn input_names(&self) -> &[Option<Arc<str>>] {
        self.names.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Returns the name of a value; `None` for results of nodes.
    pub fn value_name(&self, id: ValueId) -> Option<&Arc<str>> {
        match self.values.get(id.0 as usize)?.def {
            Def::Input(at) => self.input_name(at as usize),
            Def::Result(..) => None,
        }
    }

    /// Returns the outputs.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// Returns all nodes with their ids, in topological order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId(i as u32), node))
    }

    /// Returns the number of nodes, without nodes of regions.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of values. All ids are below it.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Returns a node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Returns the type and the definition of a value.
    pub fn value(&self, id: ValueId) -> &ValueData {
        &self.values[id.0 as usize]
    }

    /// Returns the type of a value.
    pub fn ty(&self, id: ValueId) -> &Type {
        &self.value(id).ty
    }

    /// Returns the node that defines a value; `None` for an input.
    pub fn producer(&self, id: ValueId) -> Option<&Node> {
        match self.value(id).def {
            Def::Input(_) => None,
            Def::Result(node, _) => Some(self.node(node)),
        }
    }

    /// Adds an input.
    pub fn add_input(&mut self, ty: Type) -> ValueId {
        let def = Def::Input(self.inputs.len() as u32);
        let id = self.add_value(ty, def);
        self.inputs.push(id);
        id
    }

    /// Adds an input with the type and the name of an input of `from`.
    pub fn add_input_like(&mut self, from: &Graph, input: ValueId) -> ValueId {
        let at = self.inputs.len();
        let id = self.add_input(from.ty(input).clone());
        self.name_input(at, from.value_name(input).cloned());
        id
    }

    /// Sets the name of the input at a position; an empty name removes it.
    pub fn name_input(&mut self, at: usize, name: Option<Arc<str>>) {
        let name = name.filter(|it| !it.is_empty());
        if name.is_none() && self.input_name(at).is_none() {
            return;
        }
        let names = Arc::make_mut(self.names.get_or_insert_default());
        if names.len() <= at {
            names.resize(at + 1, None);
        }
        names[at] = name;
    }

    /// Takes the names of the inputs of `from`, which has at most as many inputs.
    pub fn share_input_names(&mut self, from: &Graph) {
        self.names.clone_from(&from.names);
    }

    /// Sets the names of the inputs at these positions to those of the inputs of `from`, in order.
    pub fn name_inputs_like(&mut self, from: &Graph, at: impl IntoIterator<Item = usize>) {
        at.into_iter().zip(from.input_names()).for_each(|(at, name)| self.name_input(at, name.clone()));
    }

    /// Adds a node with results of the given types, and sets its `outputs`.
    pub fn add_node(&mut self, mut node: Node, types: impl IntoIterator<Item = Type>) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        node.outputs.clear();
        for (i, ty) in types.into_iter().enumerate() {
            node.outputs.push(self.add_value(ty, Def::Result(id, i as u32)));
        }
        self.nodes.push(node);
        id
    }

    /// Inlines `body` with the operands as its inputs, and returns its outputs.
    pub fn inline(&mut self, body: &Graph, operands: &[ValueId]) -> SmallVec<[ValueId; 1]> {
        let mut map = vec![ValueId(u32::MAX); body.values.len()];
        for (id, &operand) in body.inputs.iter().zip(operands) {
            map[id.0 as usize] = operand;
        }
        for node in &body.nodes {
            self.inline_node(body, node, &mut map);
        }
        body.outputs.iter().map(|id| map[id.0 as usize]).collect()
    }

    /// Inlines like [`Graph::inline`], and attributes the nodes to a source location.
    pub fn inline_at(
        &mut self,
        body: &Graph,
        operands: &[ValueId],
        location: Option<&'static Location<'static>>,
    ) -> SmallVec<[ValueId; 1]> {
        let first = self.nodes.len();
        let outputs = self.inline(body, operands);
        self.nodes[first..].iter_mut().for_each(|it| it.location = location);
        outputs
    }

    /// Adds a copy of a node of `from`. `map` maps its operands to values of this graph; its results are added to
    /// `map`.
    pub fn inline_node(&mut self, from: &Graph, node: &Node, map: &mut [ValueId]) {
        let types = node.outputs.iter().map(|&it| from.ty(it).clone());
        let mut copy = node.clone();
        copy.inputs.iter_mut().for_each(|it| *it = map[it.0 as usize]);
        let id = self.add_node(copy, types);
        for (old, &new) in node.outputs.iter().zip(&self.node(id).outputs) {
            map[old.0 as usize] = new;
        }
    }

    /// Replaces every region, node by node.
    pub fn map_regions(&mut self, mut f: impl FnMut(&Arc<Graph>) -> Arc<Graph>) {
        for region in self.nodes.iter_mut().flat_map(|node| &mut node.regions) {
            *region = f(region);
        }
    }

    /// Sets the outputs.
    pub fn set_outputs(&mut self, outputs: impl IntoIterator<Item = ValueId>) {
        self.outputs = outputs.into_iter().collect();
    }

    /// Permutes the inputs: position `i` becomes the input that was at `order[i]`.
    pub fn reorder_inputs(&mut self, order: &[usize]) {
        self.inputs = order.map_vec(|&at| self.inputs[at]);
        if self.names.is_some() {
            self.names = Some(Arc::new(order.map_vec(|&at| self.input_name(at).cloned())));
        }
        for (at, &input) in self.inputs.iter().enumerate() {
            self.values[input.0 as usize].def = Def::Input(at as u32);
        }
    }

    /// Sets the name.
    pub fn set_name(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    fn add_value(&mut self, ty: Type, def: Def) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.values.push(ValueData { ty, def });
        id
    }
}

impl Node {
    /// Creates a node without regions. [`Graph::add_node`] sets its results.
    pub fn new(op: Op, attrs: Attrs, inputs: impl IntoIterator<Item = ValueId>) -> Self {
        Self {
            op,
            attrs,
            regions: SmallVec::new(),
            inputs: inputs.into_iter().collect(),
            outputs: SmallVec::new(),
            location: None,
            called: None,
        }
    }
}
