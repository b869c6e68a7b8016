//! Inserts copies of old values of parameters.
//!
//! In a traced graph, `assign` makes one value of a slot follow another: these are the versions of the slot. As values,
//! old versions are never lost. But a slot has one buffer, and writing it ends its older version. Readers of that
//! version can run before the write. So a copy is needed only if the older version itself outlives the run. It may be a
//! result, or the final value of another slot whose old value ends up here.

use ms_ir::MapVec;
use ms_ir::{Graph, Node, ValueId, count_nodes};
use ms_ops::ops::{Control, Effects, STOP_GRADIENT, TENSOR_MOVE, definition, has_effect};
use ms_ops::tensor::{Attrs, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// The level of copying: MindSpore's `MS_DEV_SIDE_EFFECT_LOAD_ELIM`.
///
/// ```
/// use ms_core::{effects::Level, session::{Context, context, with_context}};
/// let needed = Context { load_elim: Level::Needed, ..context() };
/// assert_eq!(with_context(needed, || context().load_elim), Level::Needed);
/// assert_eq!(Level::from_number(1), Some(Level::Several));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Level {
    /// Copies every version that is read.
    Every = 0,
    /// Copies every version of a slot with several versions that are read. A branch, a loop or a call must read one of
    /// them, or one is a result. MindSpore's default.
    Several = 1,
    /// Copies only versions for which it is necessary.
    #[default]
    Needed = 2,
    /// Copies nothing. MindSpore's results may then be wrong. Here they are right, since all writes happen at the end
    /// of a run.
    None = 3,
}

impl Level {
    /// Returns the level with a number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Every, Self::Several, Self::Needed, Self::None].into_iter().find(|it| *it as u8 == number)
    }
}

/// The slots of a traced graph.
pub struct Slots {
    /// The inputs that are values of slots.
    pub inputs: Vec<usize>,
    /// Outputs before this one are results. Those from it on are the final values of slots.
    pub results: usize,
}

/// Returns the graph with the copies of a level as `tensor_move`, in which writes are only gradient barriers.
pub fn insert_moves<'g>(graph: &'g Graph, slots: &Slots, level: Level) -> Cow<'g, Graph> {
    if level != Level::Every && !has_effect(graph, Effects::WRITES) {
        return Cow::Borrowed(graph);
    }
    let mut moves = Moves { level, ..Moves::default() };
    Cow::Owned(moves.graph(graph, Some(slots)))
}

/// Returns the number of copies of old values in a graph and in every distinct graph in it.
pub fn count_moves(graph: &Graph) -> usize {
    count_nodes(graph, |it| it.op == TENSOR_MOVE.op())
}

#[derive(Default)]
struct Moves {
    level: Level,
    done: FxHashMap<*const Graph, Arc<Graph>>,
    continued: FxHashMap<*const Graph, Continued>,
    /// The inputs that are read in each graph, excluding those that are only written.
    reads: FxHashMap<*const Graph, Arc<Vec<bool>>>,
}

/// For each output of a graph, the input of which it is a later version, and whether it was written.
type Continued = Arc<Vec<Option<(usize, bool)>>>;

/// The versions of the slots of one graph.
#[derive(Default)]
struct Versions {
    /// The slot of a value.
    slot: FxHashMap<ValueId, usize>,
    /// The versions of each slot in order, and whether there is a write.
    all: Vec<(Vec<ValueId>, bool)>,
}

impl Versions {
    fn slot_of(&mut self, value: ValueId) -> usize {
        *self.slot.entry(value).or_insert_with(|| {
            self.all.push((vec![value], false));
            self.all.len() - 1
        })
    }

    fn write(&mut self, old: ValueId, new: ValueId) {
        let slot = self.slot_of(old);
        self.slot.insert(new, slot);
        self.all[slot].0.push(new);
        self.all[slot].1 = true;
    }

    fn is_last(&self, value: ValueId) -> bool {
        self.slot.get(&value).is_some_and(|&slot| self.all[slot].0.last() == Some(&value))
    }
}

/// Returns whether a node makes operand 0 the value of the slot whose value is operand 1.
fn is_write(node: &Node) -> bool {
    definition(node.op).effects.any_of(Effects::WRITES)
}

/// For each input or output of a graph, the corresponding operand or result of the node.
type Correspondence = Vec<Option<usize>>;

/// Returns the graphs in a node, with the operand for each of a graph's inputs, and the result for each of its outputs.
fn regions(node: &Node) -> Vec<(&Arc<Graph>, Correspondence, Correspondence)> {
    let Some(control) = Control::of(node) else { return Vec::new() };
    let all = node.regions.iter().enumerate();
    all.map(|(at, region)| {
        let inputs = (0..region.inputs().len()).map(|it| control.operand(it)).collect();
        let outputs = (0..region.outputs().len()).map(|it| control.result(at, it)).collect();
        (region, inputs, outputs)
    })
    .collect()
}

impl Moves {
    fn versions(&mut self, graph: &Graph) -> Versions {
        let mut versions = Versions::default();
        for (_, node) in graph.nodes() {
            if is_write(node) {
                versions.write(node.inputs[1], node.outputs[0]);
                continue;
            }
            // Versions of one operand that every graph in the node returns, at least one of them written.
            let mut returned: FxHashMap<usize, (usize, bool, usize)> = FxHashMap::default();
            let regions = regions(node);
            let giving = regions.iter().filter(|it| it.2.iter().any(Option::is_some)).count();
            for (region, inputs, outputs) in regions {
                for (output, continued) in self.continued(region).iter().enumerate() {
                    let Some((input, written)) = *continued else { continue };
                    if let (Some(operand), Some(result)) = (inputs[input], outputs[output]) {
                        let known = returned.entry(result).or_insert((operand, false, 0));
                        if known.0 == operand {
                            known.1 |= written;
                            known.2 += 1;
                        }
                    }
                }
            }
            let mut returned: Vec<_> = returned.into_iter().filter(|(_, it)| it.1 && it.2 == giving).collect();
            returned.sort_unstable();
            for (result, (operand, ..)) in returned {
                versions.write(node.inputs[operand], node.outputs[result]);
            }
        }
        versions
    }

    fn continued(&mut self, graph: &Arc<Graph>) -> Continued {
        if let Some(known) = self.continued.get(&Arc::as_ptr(graph)) {
            return known.clone();
        }
        let versions = self.versions(graph);
        let input = |value: ValueId| graph.inputs().iter().position(|it| *it == value);
        let of = |output: &ValueId| match versions.slot.get(output) {
            Some(&slot) => input(versions.all[slot].0[0]).map(|it| (it, versions.all[slot].0[0] != *output)),
            None => input(*output).map(|it| (it, false)),
        };
        let known: Continued = Arc::new(graph.outputs().map_vec(of));
        self.continued.insert(Arc::as_ptr(graph), known.clone());
        known
    }

    fn reads(&mut self, graph: &Arc<Graph>) -> Arc<Vec<bool>> {
        if let Some(known) = self.reads.get(&Arc::as_ptr(graph)) {
            return known.clone();
        }
        let mut read = vec![false; graph.value_count()];
        for (_, node) in graph.nodes() {
            for at in self.read_operands(node) {
                read[node.inputs[at].0 as usize] = true;
            }
        }
        let known = Arc::new(graph.inputs().map_vec(|it| read[it.0 as usize]));
        self.reads.insert(Arc::as_ptr(graph), known.clone());
        known
    }

    /// Returns the operands of a node that it, or a graph in it, reads.
    fn read_operands(&mut self, node: &Node) -> SmallVec<[usize; 4]> {
        if is_write(node) {
            return SmallVec::from_slice(&[0]);
        }
        // The node itself reads an operand that no graph in it takes.
        let mut read = vec![true; node.inputs.len()];
        let regions = regions(node);
        for operand in regions.iter().flat_map(|it| &it.1).flatten() {
            read[*operand] = false;
        }
        for (region, inputs, _) in &regions {
            let inside = self.reads(region);
            let taken = inputs.iter().zip(&*inside).filter(|it| *it.1);
            taken.for_each(|(operand, _)| operand.iter().for_each(|&it| read[it] = true));
        }
        (0..read.len()).filter(|&it| read[it]).collect()
    }

    /// Returns the versions that are copied.
    fn moved(&mut self, graph: &Graph, versions: &Versions, slots: Option<&Slots>) -> FxHashSet<ValueId> {
        let mut read: FxHashSet<ValueId> = FxHashSet::default();
        let mut passed: FxHashSet<ValueId> = FxHashSet::default();
        for (_, node) in graph.nodes() {
            let data = self.read_operands(node).into_iter().map(|at| node.inputs[at]);
            let into = if node.regions.is_empty() { &mut read } else { &mut passed };
            into.extend(data.filter(|it| versions.slot.contains_key(it)));
        }
        let (results, held) = graph.outputs().split_at(slots.map_or(0, |it| it.results));
        let outlive = |it: &&ValueId| versions.slot.contains_key(it) && !versions.is_last(**it);
        let returned = results.iter().filter(outlive).copied();
        match self.level {
            Level::None => FxHashSet::default(),
            Level::Every => read.union(&passed).copied().chain(returned).collect(),
            Level::Several => {
                let several = |slot: &(Vec<ValueId>, bool)| slot.0.iter().filter(|it| read.contains(it)).count() > 1;
                let written = versions.all.iter().filter(|it| it.1);
                let of_several = written.clone().filter(|it| several(it)).flat_map(|it| &it.0);
                let of_several = of_several.filter(|it| read.contains(it));
                let of_passed = written.flat_map(|it| &it.0).filter(|it| passed.contains(it));
                of_several.chain(of_passed).copied().chain(returned).collect()
            }
            Level::Needed => {
                let held = if slots.is_some() { held } else { &[] };
                returned.chain(exchanged(graph, versions, held)).collect()
            }
        }
    }

    fn graph(&mut self, graph: &Graph, slots: Option<&Slots>) -> Graph {
        let mut versions = self.versions(graph);
        if self.level == Level::Every {
            for &at in slots.map_or(&[][..], |it| &it.inputs) {
                versions.slot_of(graph.inputs()[at]);
            }
        }
        let moved = self.moved(graph, &versions, slots);
        let mut to = Graph::with_capacity_of(graph);
        // The new value of each value, and its copy.
        let mut map: Vec<ValueId> = vec![ValueId(u32::MAX); graph.value_count()];
        let mut copies: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        let copy = |value: ValueId, new: ValueId, to: &mut Graph, copies: &mut FxHashMap<ValueId, ValueId>| {
            if moved.contains(&value) {
                copies.insert(value, add(to, TENSOR_MOVE.op(), new, graph.ty(value)));
            }
        };
        for &input in graph.inputs() {
            map[input.0 as usize] = to.add_input(graph.ty(input).clone());
        }
        to.share_input_names(graph);
        for &input in graph.inputs() {
            copy(input, map[input.0 as usize], &mut to, &mut copies);
        }
        for (_, node) in graph.nodes() {
            let data = |it: &ValueId| copies.get(it).copied().unwrap_or(map[it.0 as usize]);
            if is_write(node) {
                let value = data(&node.inputs[0]);
                map[node.outputs[0].0 as usize] = add(&mut to, STOP_GRADIENT.op(), value, graph.ty(node.outputs[0]));
            } else {
                let inputs = node.inputs.iter().map(data).collect();
                let regions = node.regions.iter().map(|it| self.region(it)).collect();
                let types = node.outputs.iter().map(|&it| graph.ty(it).clone());
                let id = to.add_node(Node { inputs, regions, ..node.clone() }, types);
                for (old, &new) in node.outputs.iter().zip(&to.node(id).outputs) {
                    map[old.0 as usize] = new;
                }
            }
            for &output in &node.outputs {
                copy(output, map[output.0 as usize], &mut to, &mut copies);
            }
        }
        let results = slots.map_or(0, |it| it.results);
        let outputs = graph.outputs().iter().enumerate().map(|(at, it)| {
            let copied = if at < results { copies.get(it) } else { None };
            copied.copied().unwrap_or(map[it.0 as usize])
        });
        let outputs: Vec<ValueId> = outputs.collect();
        to.set_outputs(outputs);
        to
    }

    fn region(&mut self, graph: &Arc<Graph>) -> Arc<Graph> {
        if let Some(done) = self.done.get(&Arc::as_ptr(graph)) {
            return done.clone();
        }
        let done = Arc::new(self.graph(graph, None));
        self.done.insert(Arc::as_ptr(graph), done.clone());
        done
    }
}

fn add(to: &mut Graph, op: ms_ops::tensor::Op, x: ValueId, ty: &Type) -> ValueId {
    let id = to.add_node(Node::new(op, Attrs::none(), [x]), [ty.clone()]);
    to.node(id).outputs[0]
}

/// Returns one version of each cycle of slots that exchange their values.
fn exchanged(graph: &Graph, versions: &Versions, held: &[ValueId]) -> Vec<ValueId> {
    let assigned: FxHashMap<ValueId, ValueId> =
        graph.nodes().filter(|(_, node)| is_write(node)).map(|(_, node)| (node.outputs[0], node.inputs[0])).collect();
    let slot_of = |value: &ValueId| versions.slot.get(value).copied();
    // Maps a slot to the slot whose first version is its final value.
    let takes: FxHashMap<usize, usize> = held
        .iter()
        .filter_map(|it| {
            let (slot, from) = (slot_of(it)?, slot_of(assigned.get(it)?)?);
            let first = versions.all[from].0[0] == assigned[it];
            (first && versions.all[from].1).then_some((slot, from))
        })
        .collect();
    let mut seen: FxHashSet<usize> = FxHashSet::default();
    let mut found = Vec::new();
    let mut slots: Vec<usize> = takes.keys().copied().collect();
    slots.sort_unstable();
    for start in slots {
        let mut path: Vec<usize> = Vec::new();
        let mut at = start;
        while seen.insert(at) {
            path.push(at);
            let Some(&next) = takes.get(&at) else { break };
            at = next;
            if path.contains(&at) {
                found.push(versions.all[at].0[0]);
            }
        }
    }
    found
}
