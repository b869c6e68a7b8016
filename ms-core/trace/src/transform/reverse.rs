//! Implements reverse mode: the derivative of a graph as graphs.

use super::activity::Activity;
use super::composite::transformable;
use super::emit::{emit_node, is_stack, tracer};
use super::reads::{Reads, added_inside};
use super::split::{Policy, Residual, split};
use super::stacks::{counts, zeros_of};
use super::tape::{Gradients, RuleEntry, Slot, TapeEntry, pull_all};
use crate::trace;
use ms_ir::MapVec;
use ms_ir::error::Result;
use ms_ir::{Graph, Node, ValueId};
use ms_ops::ops::{self, Cotangents, Derivative, Lowering};
use ms_ops::tensor::{OpCall, Tensor, Type, dispatcher};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// A graph split for its derivative into the forward part and the backward part, which runs when gradients are pulled
/// back.
pub struct Differentiated {
    /// The forward part. Inputs: the graph's. Outputs: the graph's, then the saved values.
    pub forward: Arc<Graph>,
    /// The backward part. Inputs: `residuals`, the cotangents of the outputs `seeds`, and the partial sums of the
    /// gradients of the inputs `sums`. Outputs: the gradients of the requested inputs, for `sums` added to the partial
    /// sums.
    pub backward: Arc<Graph>,
    /// The values that the backward graph takes from the forward one.
    pub residuals: Vec<Residual>,
    /// Outputs of the graph that have a cotangent.
    pub seeds: Vec<usize>,
    /// Inputs with gradients that are added to partial sums.
    pub sums: Vec<usize>,
}

/// Computes derivatives. A region with several uses is differentiated once.
#[derive(Clone, Default)]
pub(super) struct Reverse {
    pub activity: Rc<Activity>,
    pub reads: Rc<Reads>,
    /// Whether calls add all gradients to the partial sums of their operands, rather than only those of operands that
    /// they may read in part.
    pub in_order: bool,
    /// The derivatives of regions. The key is the region's address, the inputs and the outputs of interest, and the
    /// inputs with given sums. The entry keeps the region alive, so that its address is not reused.
    made: Rc<RefCell<FxHashMap<Key, MemoEntry>>>,
}

type MemoEntry = (Arc<Graph>, Rc<Differentiated>);

type Key = (*const Graph, [Vec<usize>; 3]);

/// Returns the graph that computes the outputs of `graph`, then the gradients with respect to the inputs `wrt`. They
/// are those of the sum of the first `results` outputs. If it is `seeded`, the weights of these outputs in the sum
/// follow its own inputs. See [`differentiate`] for `in_order`.
///
/// # Errors
/// [`Code::NoGradient`](ms_ir::Code::NoGradient) when an op on the path has no derivative.
pub fn value_and_grad(graph: &Graph, wrt: &[usize], results: usize, seeded: bool, in_order: bool) -> Result<Graph> {
    let graph = &*differentiable(graph)?;
    let mut types = input_types(graph);
    let own = types.len();
    if seeded {
        types.extend(graph.outputs()[..results].iter().map(|&it| graph.ty(it).clone()));
    }
    let reverse = Reverse { in_order, ..Reverse::default() };
    let active = reverse.activity.active(graph, &flags(own, wrt), &flags(graph.outputs().len(), 0..results));
    trace::build_like(graph, &types, |inputs| {
        let (inputs, weights) = inputs.split_at(own);
        let replay = reverse.replay(graph, inputs, &active)?;
        let mut outputs = replay.outputs(graph);
        let seeds: Vec<(ValueId, Tensor)> = graph.outputs()[..results]
            .iter()
            .enumerate()
            .filter(|(_, value)| active[value.0 as usize])
            .map(|(at, &value)| (value, weights.get(at).cloned().unwrap_or_else(|| ops::ones_like(&outputs[at]))))
            .collect();
        outputs.extend(replay.pull(graph, wrt, seeds, &[])?);
        Ok(outputs)
    })
}

/// Expands composites without derivative rules.
fn differentiable(graph: &Graph) -> Result<Cow<'_, Graph>> {
    transformable(graph, |it| matches!(ops::transform_rules(it).derivative, Derivative::Body))
}

/// Returns which of the inputs `wrt` a gradient of some output reaches.
pub fn reached(graph: &Graph, wrt: &[usize]) -> Vec<bool> {
    let outputs = vec![true; graph.outputs().len()];
    let active = Activity::default().active(graph, &flags(graph.inputs().len(), wrt), &outputs);
    wrt.map_vec(|&at| active[graph.inputs()[at].0 as usize])
}

/// Splits the derivative of `graph` with respect to the inputs `wrt` into two graphs.
///
/// Gradients of a value are added in the reverse order of its uses, including uses in branches and loops. With
/// `in_order`, this holds through calls too. Sums are then rounded as without calls, and a called graph may have
/// several backward parts.
///
/// The gradient of an input that the graph may read only in part is added to its partial sum, see
/// [`Differentiated::sums`]. With `in_order`, all are.
///
/// # Errors
/// [`Code::NoGradient`](ms_ir::Code::NoGradient) when an op on the path has no derivative.
pub fn differentiate(graph: &Graph, wrt: &[usize], in_order: bool) -> Result<Differentiated> {
    let graph = &*differentiable(graph)?;
    let reverse = Reverse { in_order, ..Reverse::default() };
    let outputs = graph.outputs().len();
    let active = reverse.activity.active(graph, &flags(graph.inputs().len(), wrt), &vec![true; outputs]);
    let seeds: Vec<usize> = (0..outputs).filter(|&at| active[graph.outputs()[at].0 as usize]).collect();
    let sums = added_inside(wrt, &input_types(graph), &reverse.reads.of(graph), in_order);
    reverse.differentiate(graph, wrt, &seeds, &sums, &Policy::default(), &[])
}

pub(super) fn input_types(graph: &Graph) -> Vec<Type> {
    graph.inputs().map_vec(|&it| graph.ty(it).clone())
}

pub(super) fn flags(count: usize, set: impl IntoIterator<Item = impl std::borrow::Borrow<usize>>) -> Vec<bool> {
    let mut flags = vec![false; count];
    set.into_iter().for_each(|at| flags[*at.borrow()] = true);
    flags
}

impl Reverse {
    /// Differentiates a region like [`Reverse::differentiate`], once.
    pub fn region(
        &self,
        region: &Arc<Graph>,
        wrt: &[usize],
        seeds: &[usize],
        sums: &[usize],
    ) -> Result<Rc<Differentiated>> {
        let key = (Arc::as_ptr(region), [wrt, seeds, sums].map(<[usize]>::to_vec));
        if let Some((_, known)) = self.made.borrow().get(&key) {
            return Ok(known.clone());
        }
        let made = Rc::new(self.differentiate(region, wrt, seeds, sums, &Policy::default(), &[])?);
        self.made.borrow_mut().insert(key, (region.clone(), made.clone()));
        Ok(made)
    }

    /// Differentiates the outputs `seeds` with respect to the inputs `wrt`, in two graphs. `lengths` maps inputs that
    /// are stacks to the input that is their length, if it is known. The partial sums of the gradients of the inputs
    /// `sums` follow the cotangents among the inputs of the backward graph.
    pub fn differentiate(
        &self,
        graph: &Graph,
        wrt: &[usize],
        seeds: &[usize],
        sums: &[usize],
        policy: &Policy,
        lengths: &[(usize, usize)],
    ) -> Result<Differentiated> {
        let own = graph.inputs().len();
        let active = self.activity.active(graph, &flags(own, wrt), &flags(graph.outputs().len(), seeds));
        let joint = self.joint(graph, wrt, seeds, sums, &active, lengths)?;
        let parts = split(&joint, own, graph.outputs().len(), policy);
        let (forward, backward, residuals) = (parts.forward, parts.backward, parts.residuals);
        Ok(Differentiated { forward, backward, residuals, seeds: seeds.to_vec(), sums: sums.to_vec() })
    }

    /// Returns the graph that computes the outputs of `graph`, then the gradients of the inputs `wrt`. Its inputs are
    /// those of `graph`, the cotangents of the outputs `seeds`, and the partial sums of the gradients of the inputs
    /// `sums`.
    pub fn joint(
        &self,
        graph: &Graph,
        wrt: &[usize],
        seeds: &[usize],
        sums: &[usize],
        active: &[bool],
        lengths: &[(usize, usize)],
    ) -> Result<Graph> {
        let own = graph.inputs().len();
        let mut types = input_types(graph);
        types.extend(seeds.iter().map(|&at| graph.ty(graph.outputs()[at]).clone()));
        types.extend(sums.iter().map(|&at| graph.ty(graph.inputs()[at]).clone()));
        trace::build_like(graph, &types, |inputs| {
            let (inputs, arrived) = inputs.split_at(own);
            let (cotangents, before) = arrived.split_at(seeds.len());
            let replay = self.replay(graph, inputs, active)?;
            let mut outputs = replay.outputs(graph);
            // The partial sum of an input comes first. A value that is several outputs is one value for its uses, and
            // its gradient starts at the last of these outputs.
            let before = sums.iter().map(|&at| graph.inputs()[at]).zip(before.iter().cloned());
            let seeds = seeds.iter().map(|&at| graph.outputs()[at]).zip(cotangents.iter().cloned());
            let seeds = seeds.filter(|(value, _)| active[value.0 as usize]);
            outputs.extend(replay.pull(graph, wrt, before.chain(seeds.rev()), lengths)?);
            Ok(outputs)
        })
    }

    /// Applies a graph to tensors of the graph under construction, and records the entries through which gradients
    /// flow. Slots are numbers of values.
    fn replay(&self, graph: &Graph, inputs: &[Tensor], active: &[bool]) -> Result<Replay> {
        let counts = counts(graph);
        let values: Values = Rc::new(RefCell::new(vec![None; graph.value_count()]));
        for (id, input) in graph.inputs().iter().zip(inputs) {
            values.borrow_mut()[id.0 as usize] = Some(input.clone());
        }
        let slot = |it: &ValueId| active[it.0 as usize].then_some(it.0);
        let mut steps: Vec<Box<dyn TapeEntry>> = Vec::new();
        let tracer = tracer();
        let around = tracer.locate(None);
        for (_, node) in graph.nodes() {
            tracer.locate(node.location);
            let operands: SmallVec<[Tensor; 3]> = node.inputs.iter().map(|&it| value(&values, it)).collect();
            let output_slots: SmallVec<[Option<Slot>; 1]> = node.outputs.iter().map(slot).collect();
            let input_slots: SmallVec<[Option<Slot>; 3]> = node.inputs.iter().map(slot).collect();
            let is_active = output_slots.iter().any(Option::is_some);
            let outputs = if !matches!(ops::definition(node.op).lowering, Lowering::Regions(_)) {
                let location = node.location.unwrap_or_else(|| Location::caller());
                let outputs = {
                    let refs: SmallVec<[&Tensor; 3]> = operands.iter().collect();
                    let call = OpCall { op: node.op, attrs: &node.attrs, inputs: &refs, location };
                    dispatcher(|it| it.apply(call))?
                };
                if is_active {
                    let (op, attrs, outputs) = (node.op, node.attrs.clone(), outputs.clone());
                    let inputs = operands;
                    steps.push(Box::new(RuleEntry { op, attrs, inputs, outputs, input_slots, output_slots, location }));
                }
                outputs.into_vec()
            } else if is_active {
                let lengths: Vec<Option<Length>> =
                    node.outputs.map_vec(|it| counts.get(it).map(|&count| Length { values: values.clone(), count }));
                let wanted = Wanted {
                    inputs: input_slots.map_vec(Option::is_some),
                    outputs: output_slots.map_vec(Option::is_some),
                    lengths,
                };
                let (outputs, pull) = self.control(node, &operands, wanted)?;
                steps.push(Box::new(RegionEntry { input_slots, output_slots, pull, location: node.location }));
                outputs
            } else {
                emit_node(node, &operands)?
            };
            for (id, output) in node.outputs.iter().zip(outputs) {
                values.borrow_mut()[id.0 as usize] = Some(output);
            }
        }
        tracer.locate(around);
        Ok(Replay { values, steps, counts })
    }
}

/// The values of a graph that is being applied.
type Values = Rc<RefCell<Vec<Option<Tensor>>>>;

fn value(values: &Values, id: ValueId) -> Tensor {
    values.borrow()[id.0 as usize].clone().expect("values are defined before their use")
}

/// The length of a stack; it may be defined after the stack.
pub(super) struct Length {
    values: Values,
    count: ValueId,
}

impl Length {
    pub fn tensor(&self) -> Tensor {
        value(&self.values, self.count)
    }
}

/// The requested parts of the derivative of a node with regions.
pub(super) struct Wanted {
    /// Operands with requested gradients.
    pub inputs: Vec<bool>,
    /// Results that may have gradients.
    pub outputs: Vec<bool>,
    /// The lengths of results that are stacks, if they are known.
    pub lengths: Vec<Option<Length>>,
}

/// Computes the gradients of a node's operands from those of its results. The partial sums that it takes are included
/// in its results.
pub(super) type Pull = Box<dyn Fn(&[Option<Tensor>], &mut Sums<'_>) -> Result<Cotangents>>;

/// The partial sums of the gradients of a node's operands, from later entries.
pub(super) struct Sums<'a> {
    gradients: &'a mut Gradients,
    slots: &'a [Option<Slot>],
    /// Operands whose sums were taken.
    taken: SmallVec<[usize; 4]>,
}

impl Sums<'_> {
    /// Takes the sum of an operand, to which the node adds. A value that is several operands has its sum at the first
    /// one that is taken.
    pub fn take(&mut self, operand: usize) -> Option<Tensor> {
        let sum = self.gradients.take(self.slots[operand]?)?;
        self.taken.push(operand);
        Some(sum)
    }

    /// Takes the sums of the inputs of a region that have one. `operands` maps all inputs to operands.
    pub fn take_all(&mut self, inputs: &[usize], operands: &[usize]) -> (Vec<usize>, Vec<Tensor>) {
        inputs.iter().filter_map(|&at| Some((at, self.take(operands[at])?))).unzip()
    }
}

/// An entry for a node with regions.
struct RegionEntry {
    input_slots: SmallVec<[Option<Slot>; 3]>,
    output_slots: SmallVec<[Option<Slot>; 1]>,
    pull: Pull,
    location: Option<&'static Location<'static>>,
}

impl TapeEntry for RegionEntry {
    fn inputs(&self) -> &[Option<Slot>] {
        &self.input_slots
    }

    fn outputs(&self) -> &[Option<Slot>] {
        &self.output_slots
    }

    fn pull(&self, cotangents: &[Option<Tensor>], gradients: &mut Gradients) -> Result<()> {
        let slots = &self.input_slots;
        let mut sums = Sums { gradients, slots, taken: SmallVec::new() };
        let mut shares = (self.pull)(cotangents, &mut sums)?;
        // These go first: for other operands with the same value, they are the previous partial sum.
        for at in sums.taken {
            if let Some(slot) = slots[at] {
                gradients.add(slot, shares[at].take().expect("a sum that was taken goes on"))?;
            }
        }
        gradients.add_all(slots, shares)
    }

    fn location(&self) -> Option<&'static Location<'static>> {
        self.location
    }
}

/// A graph applied to tensors.
struct Replay {
    values: Values,
    steps: Vec<Box<dyn TapeEntry>>,
    /// The lengths of stacks.
    counts: FxHashMap<ValueId, ValueId>,
}

impl Replay {
    fn outputs(&self, graph: &Graph) -> Vec<Tensor> {
        graph.outputs().map_vec(|&it| value(&self.values, it))
    }

    /// Returns the gradients of the inputs `wrt`, given the initial gradients of some values. An input that no gradient
    /// reaches gets zeros.
    fn pull(
        &self,
        graph: &Graph,
        wrt: &[usize],
        seeds: impl IntoIterator<Item = (ValueId, Tensor)>,
        lengths: &[(usize, usize)],
    ) -> Result<Vec<Tensor>> {
        let mut gradients = Gradients::new(graph.value_count());
        for (&stack, &count) in &self.counts {
            gradients.count(stack.0, value(&self.values, count));
        }
        for (value, seed) in seeds {
            gradients.add(value.0, seed)?;
        }
        pull_all(self.steps.iter().map(|it| &**it), &mut gradients)?;
        let input = |at: usize| graph.inputs()[at];
        let count = |at: usize| {
            let known = self.counts.get(&input(at)).copied();
            let told = lengths.iter().find(|(stack, _)| *stack == at).map(|it| input(it.1));
            known.or(told).map(|it| value(&self.values, it))
        };
        let mut gradient = |&at: &usize| match gradients.get(input(at).0) {
            Some(gradient) => Ok(gradient.clone()),
            None => zeros_of(graph.ty(input(at)), || count(at)),
        };
        wrt.iter().map(&mut gradient).collect()
    }
}

/// Returns the operand positions of stacks in the regions of a node, each with the position of its length.
pub(super) fn lengths_inside(node: &Node) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for region in &node.regions {
        let counts = counts(region);
        let position = |id: ValueId| region.inputs().iter().position(|it| *it == id);
        for (at, id) in region.inputs().iter().enumerate().filter(|(_, id)| is_stack(region.ty(**id))) {
            if let Some(count) = counts.get(id).and_then(|it| position(*it)) {
                found.push((at, count));
            }
        }
    }
    found
}
