//! Implements reverse mode through calls and branches.

use super::emit::{emit, emit_node, is_stack, nothing, tracer, zeros};
use super::reads::{added_inside, without_stacks};
use super::reverse::{Differentiated, Length, Pull, Reverse, Wanted, input_types, lengths_inside};
use super::split::{Policy, Residual};
use super::stacks::{zero_stack, zeros_of};
use crate::trace;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Node};
use ms_ops::ops::Control;
use ms_ops::tensor::{Tensor, Type};
use smallvec::SmallVec;
use std::sync::Arc;

/// Returns the positions of set flags.
pub(super) fn positions(flags: &[bool]) -> Vec<usize> {
    (0..flags.len()).filter(|&at| flags[at]).collect()
}

/// Fills missing cotangents of results of these types with zeros.
fn filled(
    cotangents: &[Option<Tensor>],
    seeds: &[usize],
    types: &[Type],
    lengths: &[Option<Length>],
) -> Result<Vec<Tensor>> {
    let cotangent = |&at: &usize| match &cotangents[at] {
        Some(cotangent) => Ok(cotangent.clone()),
        None => zeros_of(&types[at], || lengths[at].as_ref().map(Length::tensor)),
    };
    seeds.iter().map(cotangent).collect()
}

/// Places gradients of some operands among `count` operands.
pub(super) fn placed(count: usize, at: &[usize], gradients: Vec<Tensor>) -> SmallVec<[Option<Tensor>; 3]> {
    let mut placed = SmallVec::from_elem(None, count);
    at.iter().zip(gradients).for_each(|(&at, gradient)| placed[at] = Some(gradient));
    placed
}

/// Selects the elements at these positions.
pub(super) fn chosen<T: Clone>(at: &[usize], all: &[T]) -> Vec<T> {
    at.map_vec(|&at| all[at].clone())
}

impl Reverse {
    /// Returns the operands of a call whose gradients are added inside, to their partial sums. The gradients of the
    /// others are returned as a whole.
    pub(super) fn added_inside(&self, region: &Arc<Graph>, wrt: &[usize], operands: &[Tensor]) -> Vec<usize> {
        let types: Vec<Type> = operands.map_vec(Tensor::ty);
        added_inside(wrt, &types, &self.reads.of_region(region), self.in_order)
    }

    /// Adds a node with regions so that it can be differentiated. Returns its results, and its pullback.
    pub fn control(&self, node: &Node, operands: &[Tensor], wanted: Wanted) -> Result<(Vec<Tensor>, Pull)> {
        match Control::of(node) {
            Some(call @ Control::Call { .. }) => self.call(node, call, operands, wanted),
            Some(Control::Branch) => self.branch(node, operands, wanted),
            Some(Control::CustomVjp(at)) => self.custom(node, at, operands, &wanted),
            Some(Control::Recompute) => self.recompute(node, operands, &wanted),
            Some(Control::Loop(at)) => self.repeat(node, &at, operands, wanted),
            Some(Control::TransformNode(_)) | None => {
                let op = node.op;
                let refuse: Pull =
                    Box::new(move |_, _| Err(Error::new(Code::NoGradient, "no derivative").with_op(op.name())));
                Ok((emit_node(node, operands)?, refuse))
            }
        }
    }

    /// Returns the graph that a node calls, and the operands that it takes. If gradients are added in order, a value
    /// that is several operands is passed once, so that all of its uses have one order.
    pub(super) fn called(&self, node: &Node, operands: &[Tensor]) -> Result<(Arc<Graph>, Vec<usize>)> {
        let called = &node.regions[0];
        let first = |at: usize| node.inputs.iter().position(|it| *it == node.inputs[at]).unwrap_or(at);
        let kept: Vec<usize> = (0..operands.len()).filter(|&at| !self.in_order || first(at) == at).collect();
        if kept.len() == operands.len() {
            return Ok((called.clone(), kept));
        }
        let types: Vec<Type> = kept.map_vec(|&at| operands[at].ty());
        let mut region = trace::build(called.name(), &types, |inputs| {
            let place = |at: usize| kept.iter().position(|it| *it == first(at)).expect("the first one is kept");
            let all: Vec<Tensor> = (0..operands.len()).map(|at| inputs[place(at)].clone()).collect();
            tracer().inline(called, &all)
        })?;
        kept.iter().enumerate().for_each(|(at, &from)| region.name_input(at, called.input_name(from).cloned()));
        Ok((Arc::new(region), kept))
    }

    fn call(&self, node: &Node, call: Control, operands: &[Tensor], wanted: Wanted) -> Result<(Vec<Tensor>, Pull)> {
        let (region, kept) = self.called(node, operands)?;
        let (count, operands) = (operands.len(), chosen(&kept, operands));
        let (wrt, seeds) = (positions(&chosen(&kept, &wanted.inputs)), positions(&wanted.outputs));
        let parts = self.region(&region, &wrt, &seeds, &[])?;
        let mut outputs = emit(&call, std::slice::from_ref(&parts.forward), &operands)?;
        let saved = outputs.split_off(node.outputs.len());
        let residuals = parts.residuals.iter().map(|it| match *it {
            Residual::Input(at) => operands[at].clone(),
            Residual::Saved(at) => saved[at].clone(),
        });
        let residuals: Vec<Tensor> = residuals.collect();
        let types: Vec<Type> = outputs.map_vec(Tensor::ty);
        let (reverse, inside) = (self.clone(), self.added_inside(&region, &wrt, &operands));
        let pull: Pull = Box::new(move |cotangents, sums| {
            let (summed, sums) = sums.take_all(&inside, &kept);
            let parts = match summed.is_empty() {
                true => parts.clone(),
                // This backward part takes the same residuals from the forward part.
                false => reverse.region(&region, &wrt, &seeds, &summed)?,
            };
            let mut inputs = residuals.clone();
            inputs.extend(filled(cotangents, &parts.seeds, &types, &wanted.lengths)?);
            inputs.extend(sums);
            let gradients = emit(&call, std::slice::from_ref(&parts.backward), &inputs)?;
            Ok(placed(count, &chosen(&wrt, &kept), gradients))
        });
        Ok((outputs, pull))
    }

    fn branch(&self, node: &Node, operands: &[Tensor], wanted: Wanted) -> Result<(Vec<Tensor>, Pull)> {
        let (condition, given) = operands.split_first().expect("a branch has a condition");
        let wrt: Vec<usize> = positions(&wanted.inputs[1..]);
        let seeds = positions(&wanted.outputs);
        let lengths = lengths_inside(node);
        let types: Vec<Type> = given.map_vec(Tensor::ty);
        let summed = without_stacks(&wrt, &types);
        let arm =
            |at: usize| self.differentiate(&node.regions[at], &wrt, &seeds, &summed, &Policy::default(), &lengths);
        let arms = Arms::of([arm(0)?, arm(1)?]);
        let results = node.outputs.len();
        let forward = [Arc::new(arms.forward(0, results)?), Arc::new(arms.forward(1, results)?)];
        let mut outputs = emit(&Control::Branch, &forward, operands)?;
        let saved = outputs.split_off(results);
        let types: Vec<Type> = outputs.map_vec(Tensor::ty);
        let (condition, given) = (condition.clone(), given.to_vec());
        let pull: Pull = Box::new(move |cotangents, sums| {
            let cotangents = filled(cotangents, &seeds, &types, &wanted.lengths)?;
            let sums: Vec<Option<Tensor>> = summed.map_vec(|&at| sums.take(at + 1));
            let arm = |at: usize| arms.backward(at, &given, &cotangents, &sums).map(Arc::new);
            let backward = [arm(0)?, arm(1)?];
            let inputs = [&condition].into_iter().chain(&given).chain(&saved).chain(&cotangents);
            let inputs: Vec<Tensor> = inputs.chain(sums.iter().flatten()).cloned().collect();
            let gradients = emit(&Control::Branch, &backward, &inputs)?;
            let at: Vec<usize> = wrt.map_vec(|at| at + 1);
            Ok(placed(given.len() + 1, &at, gradients))
        });
        Ok((outputs, pull))
    }
}

/// The derivatives of the two regions of a branch, with results of the same types. Each saved value of either region
/// has a position among the results of both. Two regions share a position for saved values of the same type.
struct Arms {
    parts: [Differentiated; 2],
    /// The types of the positions.
    types: Vec<Type>,
    /// The position of each region's saved values.
    places: [Vec<usize>; 2],
}

impl Arms {
    fn of(parts: [Differentiated; 2]) -> Self {
        let saved = |at: usize| {
            let parts: &Differentiated = &parts[at];
            let count = parts.residuals.iter().filter(|it| matches!(it, Residual::Saved(_))).count();
            let outputs = parts.forward.outputs();
            outputs[outputs.len() - count..].iter().map(|&it| parts.forward.ty(it).clone()).collect::<Vec<Type>>()
        };
        let mut types = saved(0);
        let first: Vec<usize> = (0..types.len()).collect();
        let mut free = vec![true; types.len()];
        let second = saved(1).into_iter().map(|ty| match (0..free.len()).find(|&at| free[at] && types[at] == ty) {
            Some(at) => {
                free[at] = false;
                at
            }
            None => {
                types.push(ty);
                types.len() - 1
            }
        });
        let second = second.collect();
        Self { types, places: [first, second], parts }
    }

    /// Returns a region that fills all positions: those of the other region with zeros.
    fn forward(&self, arm: usize, results: usize) -> Result<Graph> {
        let graph = &self.parts[arm].forward;
        trace::build_like(graph, &input_types(graph), |inputs| {
            let mut outputs = tracer().inline(graph, inputs)?;
            let saved = outputs.split_off(results);
            for (place, ty) in self.types.iter().enumerate() {
                let own = self.places[arm].iter().position(|it| *it == place);
                outputs.push(match own {
                    Some(at) => saved[at].clone(),
                    None if is_stack(ty) => zero_stack(&Tensor::scalar(0i64), ty)?,
                    None => zeros(ty),
                });
            }
            Ok(outputs)
        })
    }

    /// Returns a region with the operands, all positions, the cotangents, and the partial sums as inputs.
    fn backward(
        &self,
        arm: usize,
        operands: &[Tensor],
        cotangents: &[Tensor],
        sums: &[Option<Tensor>],
    ) -> Result<Graph> {
        let parts = &self.parts[arm];
        let given: Vec<Type> = operands.map_vec(Tensor::ty);
        let later = cotangents.iter().chain(sums.iter().flatten()).map(Tensor::ty);
        let types: Vec<Type> = given.iter().chain(&self.types).cloned().chain(later).collect();
        let backward = &parts.backward;
        let absent: Vec<&Type> =
            backward.inputs()[backward.inputs().len() - sums.len()..].map_vec(|&it| backward.ty(it));
        trace::build(parts.backward.name(), &types, |inputs| {
            let (given, inputs) = inputs.split_at(operands.len());
            let (places, inputs) = inputs.split_at(self.types.len());
            let (cotangents, present) = inputs.split_at(cotangents.len());
            let mut present = present.iter().cloned();
            let sums = sums.iter().zip(absent).map(|(sum, ty)| match sum {
                Some(_) => present.next().expect("an input for each sum"),
                None => nothing(ty),
            });
            let residuals = parts.residuals.iter().map(|it| match *it {
                Residual::Input(at) => &given[at],
                Residual::Saved(at) => &places[self.places[arm][at]],
            });
            let inputs: Vec<Tensor> = residuals.chain(cotangents).cloned().chain(sums).collect();
            tracer().inline(&parts.backward, &inputs)
        })
    }
}
