//! Reverse mode: one backward loop for the eager tape and for graphs.

use crate::error::{Code, Error, Result};
use crate::ir::{Graph, Node, ValueId};
use crate::ops::{self, Cotangents, Derivative, Vjp};
use crate::tensor::{Attrs, Op, OpCall, Tensor, dispatcher};
use crate::trace;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::panic::Location;

/// A differentiable value of a computation: gradients are gathered by this number.
pub type Slot = u32;

/// One step of a computation, as its backward pass sees it.
pub trait Pullback {
    /// The slots of the operands; nothing for those that want no gradient.
    fn inputs(&self) -> &[Option<Slot>];

    /// The slots of the results; nothing for those that carry none.
    fn outputs(&self) -> &[Option<Slot>];

    /// The gradients of the operands from those of the results, of which at least one is there.
    ///
    /// # Errors
    /// [`Code::NoGradient`] when there is no rule.
    fn pull(&self, cotangents: &[Option<Tensor>]) -> Result<Cotangents>;
}

/// A step that is one op with a derivative rule.
pub struct RuleEntry {
    /// Which op.
    pub op: Op,
    /// Its attributes.
    pub attrs: Attrs,
    /// Its operands.
    pub inputs: SmallVec<[Tensor; 3]>,
    /// Its results.
    pub outputs: SmallVec<[Tensor; 1]>,
    /// Slots of the operands.
    pub input_slots: SmallVec<[Option<Slot>; 3]>,
    /// Slots of the results.
    pub output_slots: SmallVec<[Option<Slot>; 1]>,
    /// The user's line.
    pub location: &'static Location<'static>,
}

impl Pullback for RuleEntry {
    fn inputs(&self) -> &[Option<Slot>] {
        &self.input_slots
    }

    fn outputs(&self) -> &[Option<Slot>] {
        &self.output_slots
    }

    fn pull(&self, cotangents: &[Option<Tensor>]) -> Result<Cotangents> {
        let needs: SmallVec<[bool; 3]> = self.input_slots.iter().map(Option::is_some).collect();
        match &ops::definition(self.op).derivative {
            Derivative::Rule(rule) => Ok(rule(&Vjp {
                attrs: &self.attrs,
                inputs: &self.inputs,
                outputs: &self.outputs,
                cotangents,
                needs: &needs,
            })),
            Derivative::Zero => Ok(SmallVec::from_elem(None, self.inputs.len())),
            Derivative::None(why) => {
                let input = needs.iter().position(|&it| it).unwrap_or(0);
                let message = format!("no gradient with respect to operand {input}: {why}");
                Err(Error::new(Code::NoGradient, message)
                    .with_op(self.op.name())
                    .with_operands(self.inputs.iter().map(|it| it.ty().to_string()))
                    .at(self.location)
                    .help("stop the gradient before this op with `ops::stop_gradient`"))
            }
        }
    }
}

/// Gradients by slot.
pub struct Gradients(Vec<Option<Tensor>>);

impl Gradients {
    /// Room for the gradients of slots below `count`.
    pub fn new(count: usize) -> Self {
        Self(vec![None; count])
    }

    /// Adds a share of a gradient.
    pub fn add(&mut self, slot: Slot, share: Tensor) {
        let sum = &mut self.0[slot as usize];
        *sum = Some(match sum.take() {
            Some(sum) => ops::add(&sum, &share),
            None => share,
        });
    }

    /// The gradient of a slot; nothing where none arrived.
    pub fn get(&self, slot: Slot) -> Option<&Tensor> {
        self.0[slot as usize].as_ref()
    }
}

/// Runs the steps backwards. The gradients of all slots stay readable in `gradients`.
///
/// # Errors
/// What a step refuses.
pub fn pull_all<'a>(steps: impl DoubleEndedIterator<Item = &'a dyn Pullback>, gradients: &mut Gradients) -> Result<()> {
    for step in steps.rev() {
        let taken = step.outputs().iter().map(|slot| gradients.get((*slot)?).cloned());
        let cotangents: SmallVec<[Option<Tensor>; 1]> = taken.collect();
        if cotangents.iter().all(Option::is_none) {
            continue;
        }
        let shares = step.pull(&cotangents)?;
        for (slot, share) in step.inputs().iter().zip(shares) {
            if let (Some(slot), Some(share)) = (slot, share) {
                gradients.add(*slot, share);
            }
        }
    }
    Ok(())
}

/// Which values of a graph carry a gradient to one of its inputs `wrt`.
fn active_values(graph: &Graph, wrt: &[usize]) -> Vec<bool> {
    let mut active = vec![false; graph.value_count()];
    for &input in wrt {
        active[graph.inputs()[input].0 as usize] = true;
    }
    for (_, node) in graph.nodes() {
        let carries = !matches!(ops::definition(node.op).derivative, Derivative::Zero)
            && node.inputs.iter().any(|it| active[it.0 as usize]);
        for output in &node.outputs {
            active[output.0 as usize] = carries && graph.ty(*output).dtype.is_float();
        }
    }
    active
}

/// A graph applied to tensors through the current dispatcher, and the steps that carry gradients
/// to some of its inputs; slots are numbers of values.
struct Replay {
    outputs: Vec<Tensor>,
    steps: Vec<RuleEntry>,
}

fn replay(graph: &Graph, inputs: &[Tensor], wrt: &[usize]) -> Result<Replay> {
    let active = active_values(graph, wrt);
    let slot = |it: &ValueId| active[it.0 as usize].then_some(it.0);
    let mut values: Vec<Option<Tensor>> = vec![None; graph.value_count()];
    for (id, input) in graph.inputs().iter().zip(inputs) {
        values[id.0 as usize] = Some(input.clone());
    }
    let value =
        |values: &[Option<Tensor>], id: &ValueId| values[id.0 as usize].clone().expect("defined before its use");
    let mut steps = Vec::new();
    for (_, node) in graph.nodes() {
        let operands: SmallVec<[Tensor; 3]> = node.inputs.iter().map(|it| value(&values, it)).collect();
        let location = node.location.unwrap_or_else(|| Location::caller());
        let outputs = {
            let inputs: SmallVec<[&Tensor; 3]> = operands.iter().collect();
            let call = OpCall { op: node.op, attrs: &node.attrs, inputs: &inputs, location };
            dispatcher(|it| it.apply(call))?
        };
        for (id, output) in node.outputs.iter().zip(&outputs) {
            values[id.0 as usize] = Some(output.clone());
        }
        let output_slots: SmallVec<[Option<Slot>; 1]> = node.outputs.iter().map(slot).collect();
        if output_slots.iter().any(Option::is_some) {
            let input_slots = node.inputs.iter().map(slot).collect();
            let (op, attrs) = (node.op, node.attrs.clone());
            steps.push(RuleEntry { op, attrs, inputs: operands, outputs, input_slots, output_slots, location });
        }
    }
    let outputs = graph.outputs().iter().map(|it| value(&values, it)).collect();
    Ok(Replay { outputs, steps })
}

/// The gradients of the inputs `wrt`, given those of the outputs; zeros where none arrives.
fn backward(
    graph: &Graph,
    inputs: &[Tensor],
    steps: &[RuleEntry],
    wrt: &[usize],
    cotangents: impl Iterator<Item = (ValueId, Tensor)>,
) -> Result<Vec<Tensor>> {
    let mut gradients = Gradients::new(graph.value_count());
    for (value, cotangent) in cotangents {
        gradients.add(value.0, cotangent);
    }
    pull_all(steps.iter().map(|it| it as &dyn Pullback), &mut gradients)?;
    let gradient = |&input: &usize| match gradients.get(graph.inputs()[input].0) {
        Some(gradient) => gradient.clone(),
        None => ops::zeros_like(&inputs[input]),
    };
    Ok(wrt.iter().map(gradient).collect())
}

/// The graph that gives the outputs of `graph`, then the gradients of the sum of its first
/// `results` outputs with respect to the inputs `wrt`. Where it is `seeded`, it takes the weights
/// of these outputs in the sum behind its own inputs.
///
/// # Errors
/// [`Code::NoGradient`] when an op on the way has no derivative.
pub fn value_and_grad(graph: &Graph, wrt: &[usize], results: usize, seeded: bool) -> Result<Graph> {
    let mut types: Vec<_> = graph.inputs().iter().map(|&it| graph.ty(it).clone()).collect();
    let own = types.len();
    if seeded {
        types.extend(graph.outputs()[..results].iter().map(|&it| graph.ty(it).clone()));
    }
    trace::build(graph.name(), &types, |inputs| {
        let (inputs, weights) = inputs.split_at(own);
        let Replay { mut outputs, steps } = replay(graph, inputs, wrt)?;
        let seeds = graph.outputs().iter().zip(&outputs).take(results).enumerate();
        let seeds = seeds.filter(|(_, (_, output))| output.dtype().is_float());
        let weight = |at: usize, output| weights.get(at).cloned().unwrap_or_else(|| ops::ones_like(output));
        let seeds = seeds.map(|(at, (&value, output))| (value, weight(at, output)));
        let gradients = backward(graph, inputs, &steps, wrt, seeds)?;
        outputs.extend(gradients);
        Ok(outputs)
    })
}

/// A graph split for a tape: what runs forward, and what runs when gradients come back.
pub struct Differentiated {
    /// Inputs as the graph's; outputs as the graph's, then the residuals.
    pub forward: Graph,
    /// Inputs: residuals, then the cotangents of the outputs `seeds`; outputs: the gradients of
    /// the inputs that were asked for.
    pub backward: Graph,
    /// Outputs of the graph that take a cotangent.
    pub seeds: Vec<usize>,
}

/// Splits the derivative of `graph` with respect to the inputs `wrt` into two graphs.
///
/// # Errors
/// [`Code::NoGradient`] when an op on the way has no derivative.
pub fn differentiate(graph: &Graph, wrt: &[usize]) -> Result<Differentiated> {
    let active = active_values(graph, wrt);
    let seeds: Vec<usize> = (0..graph.outputs().len()).filter(|&i| active[graph.outputs()[i].0 as usize]).collect();
    let own = graph.inputs().len();
    let mut types: Vec<_> = graph.inputs().iter().map(|&it| graph.ty(it).clone()).collect();
    types.extend(seeds.iter().map(|&i| graph.ty(graph.outputs()[i]).clone()));
    let joint = trace::build(graph.name(), &types, |inputs| {
        let (inputs, cotangents) = inputs.split_at(own);
        let Replay { mut outputs, steps } = replay(graph, inputs, wrt)?;
        let cotangents = seeds.iter().map(|&i| graph.outputs()[i]).zip(cotangents.iter().cloned());
        outputs.extend(backward(graph, inputs, &steps, wrt, cotangents)?);
        Ok(outputs)
    })?;
    let (forward, backward) = split(&joint, own, graph.outputs().len());
    Ok(Differentiated { forward, backward, seeds })
}

/// Cuts `joint` into the part that needs only its first `own` inputs and the rest. Values that
/// cross the cut are outputs of the first part, after its first `results` outputs, and inputs of
/// the second, before the remaining inputs.
fn split(joint: &Graph, own: usize, results: usize) -> (Graph, Graph) {
    let mut late = vec![false; joint.value_count()];
    for input in &joint.inputs()[own..] {
        late[input.0 as usize] = true;
    }
    for (_, node) in joint.nodes() {
        let is_late = node.inputs.iter().any(|it| late[it.0 as usize]);
        for output in &node.outputs {
            late[output.0 as usize] = is_late;
        }
    }
    // Nodes without operands are cheaper to repeat than to pass.
    let repeated = |value: ValueId| joint.producer(value).is_some_and(|it| it.inputs.is_empty());
    let is_late = |node: &Node| late[node.outputs[0].0 as usize];
    let mut crossing: Vec<ValueId> = Vec::new();
    let mut seen = vec![false; joint.value_count()];
    let mut cross = |value: ValueId| {
        let at = value.0 as usize;
        if !late[at] && !repeated(value) && !std::mem::replace(&mut seen[at], true) {
            crossing.push(value);
        }
    };
    joint
        .nodes()
        .filter(|(_, node)| is_late(node))
        .for_each(|(_, node)| node.inputs.iter().copied().for_each(&mut cross));
    joint.outputs()[results..].iter().copied().for_each(&mut cross);

    let given = &joint.inputs()[..own];
    let outputs: Vec<ValueId> = joint.outputs()[..results].iter().chain(&crossing).copied().collect();
    let forward = extract(joint, "forward", given, &outputs, |node| !is_late(node));
    let given: Vec<ValueId> = crossing.iter().chain(&joint.inputs()[own..]).copied().collect();
    let outputs = &joint.outputs()[results..];
    let backward = extract(joint, "backward", &given, outputs, |node| is_late(node) || node.inputs.is_empty());
    (forward, backward)
}

/// The nodes of `from` that `take` picks, as a graph of their own.
fn extract(from: &Graph, part: &str, inputs: &[ValueId], outputs: &[ValueId], take: impl Fn(&Node) -> bool) -> Graph {
    let mut to = Graph::new(format!("{}.{part}", from.name()));
    let mut map: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    for &input in inputs {
        map.insert(input, to.add_input(from.ty(input).clone()));
    }
    for (_, node) in from.nodes().filter(|(_, node)| take(node)) {
        let copy = Node { inputs: node.inputs.iter().map(|it| map[it]).collect(), ..node.clone() };
        let types: SmallVec<[_; 1]> = node.outputs.iter().map(|&it| from.ty(it).clone()).collect();
        let id = to.add_node(copy, types);
        map.extend(node.outputs.iter().copied().zip(to.node(id).outputs.iter().copied()));
    }
    to.set_outputs(outputs.iter().map(|it| map[it]));
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Def, Type};
    use crate::tensor::DType;

    #[test]
    fn split_passes_only_what_crosses() {
        let ty = Type::of(DType::F32, &[3]);
        let graph = trace::build("f", &[ty.clone(), ty], |it| Ok(vec![ops::add(&it[0], &it[1])])).expect("traces");
        let parts = differentiate(&graph, &[0]).expect("differentiable");
        assert_eq!(parts.seeds, [0]);
        assert_eq!(parts.forward.outputs().len(), 1, "the gradient of a sum needs no residual");
        assert_eq!(parts.backward.inputs().len(), 1);
        assert!(matches!(parts.backward.value(parts.backward.outputs()[0]).def, Def::Input(0)));
    }
}
