//! Batches calls, branches and loops.

use super::guard::chosen;
use super::masked::MaskedLoop;
use super::{Batched, Batcher, Value, emit, flags, is_stack, tensors, whole};
use ms_ir::MapVec;
use ms_ir::Node;
use ms_ir::error::{Code, Error, Result};
use ms_ops::ops::{self, BatchedCall, Control, CustomVjp, Effects, Loop, has_effect};
use ms_ops::tensor::Tensor;

impl Batcher {
    /// Batches a node with regions.
    pub(super) fn control(&self, node: &Node, control: &Control, operands: &[Value]) -> Result<Vec<Value>> {
        if *control == Control::Branch {
            let (condition, given) = operands.split_first().expect("an `if` has a condition");
            let apart = self.has_lanes() && is_ordered(node);
            return match condition.mapped {
                true if apart => self.one_by_one(node, control, operands),
                true => self.choice(node, &condition.tensor, given),
                false => whole(given).and_then(|()| self.branch(node, condition, given)),
            };
        }
        if let Some(sides) = operands.iter().find_map(Value::split) {
            return self.on_each_side(node, control, operands, &sides.mask);
        }
        match control {
            Control::Call { .. } | Control::Recompute => self.call(node, control, operands),
            Control::Loop(at) if at.is_while() => self.repeat(node, at, operands),
            Control::Loop(at) => self.scan(node, at, operands),
            Control::CustomVjp(at) => self.custom(node, at, operands),
            Control::Branch | Control::TransformNode(_) => {
                Err(Error::new(Code::Verify, format!("`{}` cannot be mapped over lanes", node.op.name())))
            }
        }
    }

    /// Batches a node on stacks for which each lane takes an arm: runs it on both and selects.
    fn on_each_side(&self, node: &Node, control: &Control, operands: &[Value], mask: &Tensor) -> Result<Vec<Value>> {
        let is_one = |it: &Value| it.sides.as_ref().is_some_and(|it| it.mask.identity() == mask.identity());
        // Without the counts of both arms, a lane might need more rows than an arm has.
        let counted = matches!(control, Control::Loop(at) if at.is_counted()) && is_one(&operands[0]);
        if !counted {
            whole(operands)?;
        }
        let side = |at: usize| -> Result<Vec<Value>> {
            let of = |it: &Value| it.sides.as_ref().filter(|_| is_one(it)).map_or(it, |it| &it.each[at]).clone();
            self.control(node, control, &operands.map_vec(of))
        };
        let (yes, no) = (side(0)?, side(1)?);
        Ok(yes.into_iter().zip(no).map(|(yes, no)| chosen(mask, yes, no)).collect())
    }

    /// Batches a graph with a custom derivative. Values with gradients are mapped, so that the gradients are too. A
    /// slot is mapped if its written value is.
    fn custom(&self, node: &Node, at: &CustomVjp, operands: &[Value]) -> Result<Vec<Value>> {
        let results = &node.regions[0].outputs()[..at.results];
        let floats = results.iter().filter(|&&it| node.regions[0].ty(it).dtype.is_float()).count();
        let mut mapped = flags(operands);
        mapped[..at.targets].fill(true);
        let (forward, backward) = loop {
            let slots = &mapped[at.targets..at.gradients()];
            let lanes = vec![true; at.targets + at.results + floats];
            let given = [&lanes, slots, &mapped[at.captured..]].concat();
            let backward = self.region(&node.regions[1], &given, &[&lanes[..at.targets], slots].concat())?;
            if backward.mapped[at.targets..] == *slots {
                break (self.region(&node.regions[0], &mapped[..at.captured], &lanes[..at.results])?, backward);
            }
            mapped[at.targets..at.gradients()].copy_from_slice(&backward.mapped[at.targets..]);
        };
        let input = |(it, &mapped): (&Value, &bool)| if mapped { self.spread(it) } else { Ok(it.tensor.clone()) };
        let inputs: Result<Vec<Tensor>> = operands.iter().zip(&mapped).map(input).collect();
        let outputs = emit(node, &Control::CustomVjp(*at), &[forward.graph, backward.graph], &inputs?)?;
        Ok(outputs.into_iter().zip(forward.mapped).map(Value::new).collect())
    }

    fn call(&self, node: &Node, call: &Control, operands: &[Value]) -> Result<Vec<Value>> {
        let callee = self.region(&node.regions[0], &flags(operands), &[])?;
        let outputs = emit(node, call, &[callee.graph], &tensors(operands))?;
        Ok(outputs.into_iter().zip(callee.mapped).map(Value::new).collect())
    }

    /// Emits a node for each lane, one after the other. Prints and assertions of lanes are separate and in order.
    fn one_by_one(&self, node: &Node, control: &Control, operands: &[Value]) -> Result<Vec<Value>> {
        let (inputs, mapped) = (tensors(operands), flags(operands));
        let lanes = BatchedCall { op: node.op, attrs: &node.attrs, inputs: &inputs, mapped: &mapped, size: self.size };
        let mut all: Vec<Vec<Tensor>> = Vec::new();
        for lane in 0..lanes.count()? {
            let mut inputs = lanes.lane(lane);
            if let Some(before) = all.last().and_then(|it| it.first()) {
                inputs[0] = ops::depend(&inputs[0], before);
            }
            all.push(emit(node, control, &node.regions, &inputs)?);
        }
        let joined = |i: usize| ops::stack(&all.map_vec(|it| &it[i]), 0);
        Ok((0..node.outputs.len()).map(|i| Value::new((joined(i), true))).collect())
    }

    /// Batches an `if` with a condition that is uniform over the lanes.
    fn branch(&self, node: &Node, condition: &Value, operands: &[Value]) -> Result<Vec<Value>> {
        let mapped = flags(operands);
        let arms = [self.region(&node.regions[0], &mapped, &[])?, self.region(&node.regions[1], &mapped, &[])?];
        let either: Vec<bool> = arms[0].mapped.iter().zip(&arms[1].mapped).map(|(a, b)| a | b).collect();
        let arm = |at: usize| Ok(self.region(&node.regions[at], &mapped, &either)?.graph);
        let inputs: Vec<Tensor> = std::iter::once(condition.tensor.clone()).chain(tensors(operands)).collect();
        let outputs = emit(node, &Control::Branch, &[arm(0)?, arm(1)?], &inputs)?;
        Ok(outputs.into_iter().zip(either).map(Value::new).collect())
    }

    fn repeat(&self, node: &Node, at: &Loop, operands: &[Value]) -> Result<Vec<Value>> {
        let carries = at.carries;
        let mapped = flags(operands);
        let (body, mapped) =
            self.fixed_point(carries, carries, mapped, |mapped, spread| self.region(&node.regions[1], mapped, spread))?;
        let condition = self.region(&node.regions[0], &mapped, &[])?;
        if condition.mapped[0] && self.has_lanes() && is_ordered(node) {
            return self.one_by_one(node, &Control::Loop(*at), operands);
        }
        if condition.mapped[0] {
            return MaskedLoop { batcher: self, node, at }.repeat(operands);
        }
        let mut inputs = tensors(operands);
        for at in (0..carries).filter(|&at| mapped[at]) {
            inputs[at] = self.spread(&operands[at])?;
        }
        let outputs = emit(node, &Control::Loop(*at), &[condition.graph, body.graph], &inputs)?;
        let pushes = body.mapped.len() - carries;
        let count = (pushes > 0).then_some(false);
        let mapped = mapped[..carries].iter().copied().chain(count).chain(vec![true; pushes]);
        Ok(outputs.into_iter().zip(mapped).map(Value::new).collect())
    }

    /// Finds the body of a loop with as few mapped carries as possible (a fixpoint). A carry that is mapped at the end
    /// of an iteration is mapped at the beginning of the next one. `mapped` begins with the `carries` carries. Pushed
    /// values, from output `pushed` on, are always mapped, so that all stacks of one loop have the same form.
    fn fixed_point(
        &self,
        carries: usize,
        pushed: usize,
        mut mapped: Vec<bool>,
        body: impl Fn(&[bool], &[bool]) -> Result<Batched>,
    ) -> Result<(Batched, Vec<bool>)> {
        loop {
            let spread = |outputs: usize| -> Vec<bool> {
                (0..outputs).map(|at| if at < carries { mapped[at] } else { at >= pushed }).collect()
            };
            let first = body(&mapped, &[])?;
            let batched = body(&mapped, &spread(first.mapped.len()))?;
            if batched.mapped[..carries] == mapped[..carries] {
                return Ok((batched, mapped));
            }
            mapped[..carries].copy_from_slice(&batched.mapped[..carries]);
        }
    }

    fn scan(&self, node: &Node, at: &Loop, operands: &[Value]) -> Result<Vec<Value>> {
        let carries = at.carries;
        let count = at.is_counted().then(|| &operands[0]);
        let operands: Vec<Value> = operands[at.first_carry()..]
            .iter()
            .enumerate()
            .map(|(i, it)| if at.elements().contains(&i) { rows(it) } else { it.clone() })
            .collect();
        if let Some(count) = count.filter(|it| it.mapped) {
            return MaskedLoop { batcher: self, node, at }.scan(&count.tensor, &operands);
        }
        // Stacks are always mapped; sequences of a fixed length only if necessary.
        let pushed = if count.is_some() { carries } else { usize::MAX };
        let (body, mapped) = self.fixed_point(carries, pushed, flags(&operands), |mapped, spread| {
            self.region(&node.regions[0], mapped, spread)
        })?;
        let mut inputs: Vec<Tensor> = count.map(|it| it.tensor.clone()).into_iter().chain(tensors(&operands)).collect();
        for i in (0..carries).filter(|&i| mapped[i]) {
            inputs[at.first_carry() + i] = self.spread(&operands[i])?;
        }
        let outputs = emit(node, &Control::Loop(*at), &[body.graph], &inputs)?;
        let outputs = outputs.into_iter().zip(body.mapped).map(Value::new).enumerate();
        Ok(outputs.map(|(i, it)| if i < carries { it } else { rows(&it) }).collect())
    }
}

/// Returns whether the regions of a node have effects in program order.
fn is_ordered(node: &Node) -> bool {
    node.regions.iter().any(|it| has_effect(it, Effects::ORDERED))
}

/// Moves the lanes of a sequence from the first axis to the second, and vice versa. Stacks always have them as the
/// second.
fn rows(sequence: &Value) -> Value {
    if !sequence.mapped || is_stack(&sequence.tensor.ty()) {
        return sequence.clone();
    }
    Value::new((ops::transpose(&sequence.tensor, 0, 1), true))
}
