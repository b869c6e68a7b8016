//! Implements forward mode: a graph with the tangents of its values.

use super::activity::{Activity, body_outputs};
use super::composite::transformable;
use super::custom::push_custom;
use super::emit::{emit, emit_node, tracer};
use super::linear::{self, Pushed};
use super::reverse::{flags, input_types};
use super::stacks::{counts, zeros_of};
use crate::trace;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Node, ValueId};
use ms_ops::ops::{self, Control, Loop, Lowering};
use ms_ops::tensor::{Tensor, apply};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

/// Returns the graph that computes the outputs of `graph`, then the tangents of the float outputs among the first
/// `results`. Its inputs are the inputs of `graph`, then the tangents of the inputs `wrt`.
///
/// # Errors
/// [`Code::NoGradient`] when an op on the path has no derivative.
pub fn jvp(graph: &Graph, wrt: &[usize], results: usize) -> Result<Graph> {
    let graph = &*transformable(graph, |_| true)?;
    let own = graph.inputs().len();
    let mut types = input_types(graph);
    types.extend(wrt.iter().map(|&at| graph.ty(graph.inputs()[at]).clone()));
    let forward = Forward::default();
    trace::build_like(graph, &types, |inputs| {
        let (inputs, tangents) = inputs.split_at(own);
        let mut duals: Vec<Dual> = inputs.iter().cloned().map(Dual::constant).collect();
        wrt.iter().zip(tangents).for_each(|(&at, tangent)| duals[at].tangent = Some(tangent.clone()));
        let wanted = flags(graph.outputs().len(), 0..results);
        let outputs = forward.replay(graph, duals, &wanted)?;
        let mut all: Vec<Tensor> = outputs.values.map_vec(|it| it.tensor.clone());
        for at in (0..results).filter(|&at| outputs.values[at].tensor.dtype().is_float()) {
            all.push(outputs.tangent(at)?);
        }
        Ok(all)
    })
}

/// A value with its tangent, which is `None` if the value does not depend on the targets.
#[derive(Clone)]
struct Dual {
    tensor: Tensor,
    tangent: Option<Tensor>,
}

impl Dual {
    fn constant(tensor: Tensor) -> Self {
        Self { tensor, tangent: None }
    }
}

fn tensors<'a>(duals: impl IntoIterator<Item = &'a Dual>) -> Vec<Tensor> {
    duals.into_iter().map(|it| it.tensor.clone()).collect()
}

fn tangents<'a>(duals: impl IntoIterator<Item = &'a Dual>) -> Vec<Tensor> {
    duals.into_iter().filter_map(|it| it.tangent.clone()).collect()
}

fn varied(duals: &[Dual]) -> Vec<bool> {
    duals.map_vec(|it| it.tangent.is_some())
}

/// A region with tangents. The tangents of some inputs follow its own inputs, and those of the flagged outputs follow
/// its own outputs.
#[derive(Clone)]
struct Region {
    graph: Arc<Graph>,
    varied: Vec<bool>,
}

/// The key of a region: its address, the inputs that have tangents, the outputs that must have some, and the outputs
/// with live tangents. The entry keeps the region alive, so that its address is not reused.
type GraphMemo = FxHashMap<(*const Graph, [Vec<bool>; 3]), (Arc<Graph>, Region)>;

/// Pushes tangents through graphs; a region with several uses is transformed once.
#[derive(Default)]
struct Forward {
    activity: Activity,
    made: RefCell<GraphMemo>,
}

/// The outputs of an applied graph, and the lengths for zeros of stacks.
struct Outputs {
    values: Vec<Dual>,
    lengths: Vec<Option<Tensor>>,
}

impl Outputs {
    fn tangent(&self, at: usize) -> Result<Tensor> {
        match &self.values[at].tangent {
            Some(tangent) => Ok(tangent.clone()),
            None => zeros_of(&self.values[at].tensor.ty(), || self.lengths[at].clone()),
        }
    }
}

impl Forward {
    /// Returns the outputs of `graph` with its nodes added to the graph under construction. `wanted` flags the outputs
    /// with live tangents.
    fn replay(&self, graph: &Graph, inputs: Vec<Dual>, wanted: &[bool]) -> Result<Outputs> {
        let tracer = tracer();
        let useful = self.activity.useful(graph, wanted);
        let mut values: Vec<Option<Dual>> = vec![None; graph.value_count()];
        for (id, input) in graph.inputs().iter().zip(inputs) {
            values[id.0 as usize] = Some(input);
        }
        let of = |values: &[Option<Dual>], id: ValueId| values[id.0 as usize].clone().expect("defined before its use");
        let around = tracer.locate(None);
        for (_, node) in graph.nodes() {
            let operands: Vec<Dual> = node.inputs.map_vec(|&id| of(&values, id));
            tracer.locate(node.location);
            let wanted: Vec<bool> = node.outputs.map_vec(|it| useful[it.0 as usize]);
            for (id, result) in node.outputs.iter().zip(self.node(node, &operands, &wanted)?) {
                values[id.0 as usize] = Some(result);
            }
        }
        tracer.locate(around);
        let counts = counts(graph);
        let length = |id: &ValueId| counts.get(id).map(|&count| of(&values, count).tensor);
        Ok(Outputs { values: graph.outputs().map_vec(|&id| of(&values, id)), lengths: graph.outputs().map_vec(length) })
    }

    fn node(&self, node: &Node, operands: &[Dual], wanted: &[bool]) -> Result<Vec<Dual>> {
        let is_varied = operands.iter().any(|it| it.tangent.is_some());
        let inputs = tensors(operands);
        if let Lowering::Regions(_) = ops::definition(node.op).lowering {
            return match is_varied {
                true => self.control(node, operands, wanted),
                false => Ok(emit_node(node, &inputs)?.into_iter().map(Dual::constant).collect()),
            };
        }
        let outputs = apply(node.op, &node.attrs, &inputs.iter().collect::<SmallVec<[&Tensor; 3]>>())?;
        if !is_varied {
            return Ok(outputs.into_iter().map(Dual::constant).collect());
        }
        let given: Vec<Option<Tensor>> = operands.map_vec(|it| it.tangent.clone());
        let location = node.location.unwrap_or_else(|| Location::caller());
        let call = Pushed { op: node.op, attrs: &node.attrs, inputs: &inputs, outputs: &outputs, location };
        let tangents = linear::push(&call, &given)?;
        Ok(outputs.into_iter().zip(tangents).map(|(tensor, tangent)| Dual { tensor, tangent }).collect())
    }

    /// Returns a region with tangents of the flagged inputs. Outputs flagged in `forced` always have tangents.
    fn region(&self, region: &Arc<Graph>, given: &[bool], forced: &[bool], wanted: &[bool]) -> Result<Region> {
        let key = (Arc::as_ptr(region), [given, forced, wanted].map(<[bool]>::to_vec));
        if let Some((_, known)) = self.made.borrow().get(&key) {
            return Ok(known.clone());
        }
        let own = region.inputs().len();
        let mut types = input_types(region);
        types.extend((0..own).filter(|&at| given[at]).map(|at| region.ty(region.inputs()[at]).clone()));
        let mut flags = Vec::new();
        let graph = trace::build_like(region, &types, |inputs| {
            let (inputs, tangents) = inputs.split_at(own);
            let mut tangents = tangents.iter();
            let duals = inputs.iter().zip(given).map(|(tensor, &given)| Dual {
                tensor: tensor.clone(),
                tangent: given.then(|| tangents.next().expect("one for each flag").clone()),
            });
            let outputs = self.replay(region, duals.collect(), wanted)?;
            flags = varied(&outputs.values);
            flags.iter_mut().zip(forced).for_each(|(flag, &forced)| *flag |= forced);
            let mut all = tensors(&outputs.values);
            for at in (0..flags.len()).filter(|&at| flags[at]) {
                all.push(outputs.tangent(at)?);
            }
            Ok(all)
        })?;
        let made = Region { graph: Arc::new(graph), varied: flags };
        self.made.borrow_mut().insert(key, (region.clone(), made.clone()));
        Ok(made)
    }

    fn control(&self, node: &Node, operands: &[Dual], wanted: &[bool]) -> Result<Vec<Dual>> {
        match Control::of(node) {
            Some(call @ (Control::Call { .. } | Control::Recompute)) => {
                let callee = self.region(&node.regions[0], &varied(operands), &[], wanted)?;
                let inputs = [tensors(operands), tangents(operands)].concat();
                Ok(paired(emit(&call, &[callee.graph], &inputs)?, &callee.varied))
            }
            Some(Control::CustomVjp(at)) => {
                let given: Vec<Option<Tensor>> = operands.map_vec(|it| it.tangent.clone());
                let (outputs, tangents) = push_custom(node, &at, &tensors(operands), &given, wanted)?;
                let outputs = outputs.into_iter().zip(tangents);
                Ok(outputs.map(|(tensor, tangent)| Dual { tensor, tangent }).collect())
            }
            Some(Control::Branch) => self.branch(node, operands, wanted),
            Some(Control::Loop(at)) => self.repeat(node, &at, operands, wanted),
            Some(Control::TransformNode(_)) | None => {
                Err(Error::new(Code::NoGradient, "no derivative").with_op(node.op.name()))
            }
        }
    }

    fn branch(&self, node: &Node, operands: &[Dual], wanted: &[bool]) -> Result<Vec<Dual>> {
        let given = varied(&operands[1..]);
        let arm = |at: usize, forced: &[bool]| self.region(&node.regions[at], &given, forced, wanted);
        let (a, b) = (arm(0, &[])?, arm(1, &[])?);
        let either: Vec<bool> = a.varied.iter().zip(&b.varied).map(|(a, b)| a | b).collect();
        let arms = [arm(0, &either)?.graph, arm(1, &either)?.graph];
        let inputs = [tensors(operands), tangents(&operands[1..])].concat();
        Ok(paired(emit(&Control::Branch, &arms, &inputs)?, &either))
    }

    /// Differentiates a loop: tangents follow its carries, sequences and constants.
    fn repeat(&self, node: &Node, at: &Loop, operands: &[Dual], wanted: &[bool]) -> Result<Vec<Dual>> {
        let (counted, operands) = operands.split_at(at.first_carry());
        let (given, _) = self.activity.outputs_of_loop(at, node, varied(operands));
        let (_, useful) = self.activity.inputs_of_loop(at, node, body_outputs(at, wanted));
        let body = node.regions.last().expect("a loop has a body");
        let body = self.region(body, &given, &given[..at.carries], &useful)?;
        let bounds = [0, at.carries, at.invariants(), operands.len()];
        // Positions of the tangents relative to each other, part by part.
        let before = |end: usize| given[..end].iter().filter(|it| **it).count();
        let parts = || bounds.windows(2).map(|it| (it[0]..it[1], before(it[0])..before(it[1])));
        let own = operands.len();
        let order: Vec<usize> = parts().flat_map(|(own_part, of)| own_part.chain(of.map(|it| own + it))).collect();

        let mut graph = (*body.graph).clone();
        graph.reorder_inputs(&order);
        let outputs = body.varied.len();
        let moved = before(at.carries);
        // The carries with their tangents, then the remaining outputs with theirs.
        let results: Vec<ValueId> = (0..at.carries)
            .chain(outputs..outputs + moved)
            .chain(at.carries..outputs)
            .chain(outputs + moved..graph.outputs().len())
            .map(|it| graph.outputs()[it])
            .collect();
        graph.set_outputs(results);

        let all: Vec<Tensor> =
            operands.iter().map(|it| it.tensor.clone()).chain(self.tangents_of(operands, &given)?).collect();
        let inputs: Vec<Tensor> = tensors(counted).into_iter().chain(order.iter().map(|&it| all[it].clone())).collect();
        let carries = at.carries + moved;
        let results = if at.is_while() {
            let mut condition = (*node.regions[0]).clone();
            for at in (0..own).filter(|&at| given[at]) {
                let ty = condition.ty(condition.inputs()[at]).clone();
                condition.add_input(ty);
            }
            condition.reorder_inputs(&order);
            emit(&Control::Loop(Loop { carries, ..*at }), &[Arc::new(condition), Arc::new(graph)], &inputs)?
        } else {
            let sequences = order.len() - carries - (own - bounds[2]) - (before(own) - before(bounds[2]));
            emit(&Control::Loop(Loop { carries, sequences, ..*at }), &[Arc::new(graph)], &inputs)?
        };
        Ok(self.results(node, at, &body.varied, moved, results))
    }

    /// Returns the tangents of the flagged operands: zeros for operands whose tangent only the loop introduces.
    fn tangents_of(&self, operands: &[Dual], given: &[bool]) -> Result<Vec<Tensor>> {
        let flagged = operands.iter().zip(given).filter(|(_, given)| **given);
        let tangent = |(it, _): (&Dual, &bool)| match &it.tangent {
            Some(tangent) => Ok(tangent.clone()),
            None => zeros_of(&it.tensor.ty(), || None),
        };
        flagged.map(tangent).collect()
    }

    /// Returns the results of a loop with tangents, in the order of the node's results.
    fn results(&self, node: &Node, at: &Loop, varied: &[bool], moved: usize, results: Vec<Tensor>) -> Vec<Dual> {
        let (carries, rest) = results.split_at(at.carries);
        let (carried, rest) = rest.split_at(moved);
        let stacks = varied.len() - at.carries;
        let (others, pushed) = rest.split_at(rest.len() - varied[at.carries..].iter().filter(|it| **it).count());
        let (count, stacked) = others.split_at(others.len() - stacks);
        debug_assert_eq!(carries.len() + others.len(), node.outputs.len());
        let mut tangents = carried.iter().chain(pushed).cloned();
        let mut dual = |(tensor, &varied): (&Tensor, &bool)| Dual {
            tensor: tensor.clone(),
            tangent: varied.then(|| tangents.next().expect("one for each flag")),
        };
        let mut all: Vec<Dual> = carries.iter().zip(varied).map(&mut dual).collect();
        all.extend(count.iter().cloned().map(Dual::constant));
        all.extend(stacked.iter().zip(&varied[at.carries..]).map(&mut dual));
        all
    }
}

/// Pairs results with the tangents that follow them.
fn paired(mut results: Vec<Tensor>, varied: &[bool]) -> Vec<Dual> {
    let mut tangents = results.split_off(varied.len()).into_iter();
    let dual = |(tensor, &varied): (Tensor, &bool)| Dual {
        tensor,
        tangent: varied.then(|| tangents.next().expect("one for each flag")),
    };
    results.into_iter().zip(varied).map(dual).collect()
}
