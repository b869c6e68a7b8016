//! Batches loops with a trip count that differs between lanes. They run until the last lane is done, and the carries of
//! finished lanes remain unchanged.

use super::guard::{expand_mask, is_speculatable};
use super::{Batcher, Value, build, emit, flags, tensors};
use ms_ir::MapVec;
use ms_ir::error::Result;
use ms_ir::{Graph, Node, Type};
use ms_ops::ops::{self, Control, Loop};
use ms_ops::tensor::{DType, Tensor};
use std::sync::Arc;

/// A batched loop.
pub(super) struct MaskedLoop<'a> {
    pub batcher: &'a Batcher,
    pub node: &'a Node,
    pub at: &'a Loop,
}

impl MaskedLoop<'_> {
    /// Runs the body on operands. The results of lanes outside the mask are unused.
    fn body(&self, body: &Graph, speculated: bool, active: &Tensor, operands: Vec<Value>) -> Result<Vec<Value>> {
        match speculated {
            true => self.batcher.replay(body, operands),
            false => self.batcher.replay(body, self.batcher.protected(active, &operands)),
        }
    }

    /// Returns the carries after an iteration. Those of the lanes outside the mask are unchanged.
    fn carried(&self, active: &Tensor, next: &[Value], held: &[Value]) -> Vec<Value> {
        let choose = |(next, held): (&Value, &Value)| {
            let mask = expand_mask(active, held.tensor.rank());
            Value::new((ops::select(mask, &next.tensor, &held.tensor), true))
        };
        next.iter().zip(held).map(choose).collect()
    }

    /// Batches a `while` whose condition differs between lanes. Its carries begin with the mask of the active lanes
    /// and, if the body pushes, with the trip counts.
    pub(super) fn repeat(&self, operands: &[Value]) -> Result<Vec<Value>> {
        let (batcher, carries) = (self.batcher, self.at.carries);
        let [condition, body] = [&self.node.regions[0], &self.node.regions[1]];
        let counts = body.outputs().len() > carries;
        let own = 1 + usize::from(counts);
        let mut start = operands.to_vec();
        for value in &mut start[..carries] {
            *value = Value::new((batcher.spread(value)?, true));
        }
        let mapped = flags(&start);
        let goes_on = |operands: Vec<Value>| batcher.spread(&batcher.replay(condition, operands)?[0]);

        let mut inputs = vec![goes_on(start.clone())?];
        if counts {
            inputs.push(ops::full_of(&[batcher.size][..], 0, DType::I64));
        }
        inputs.extend(tensors(&start));
        let types: Vec<Type> = inputs.map_vec(Tensor::ty);
        let given = |inputs: &[Tensor]| -> Vec<Value> {
            inputs[own..].iter().cloned().zip(mapped.iter().copied()).map(Value::new).collect()
        };
        let mut any = build(self.node, condition.name(), &types, |inputs| Ok(vec![ops::any(&inputs[0], ())]))?;
        let speculated = is_speculatable(body);
        let mut step = build(self.node, body.name(), &types, |inputs| {
            let (active, mut operands) = (&inputs[0], given(inputs));
            let results = self.body(body, speculated, active, operands.clone())?;
            let next = self.carried(active, &results[..carries], &operands[..carries]);
            let mut outputs = Vec::new();
            if counts {
                outputs.push(ops::add(&inputs[1], ops::cast(active, DType::I64)));
            }
            outputs.extend(tensors(&next));
            operands[..carries].clone_from_slice(&next);
            outputs.insert(0, ops::logical_and(active, goes_on(operands)?));
            for pushed in &results[carries..] {
                outputs.push(batcher.spread(pushed)?);
            }
            Ok(outputs)
        })?;
        for graph in [&mut any, &mut step] {
            graph.name_inputs_like(body, own..types.len());
        }
        let masked = Control::Loop(Loop::repeat(own + carries));
        let mut results = emit(self.node, &masked, &[Arc::new(any), Arc::new(step)], &inputs)?;
        results.remove(0);
        if counts {
            // The trip count differs between lanes, too.
            let count = results.remove(0);
            results[carries] = count;
        }
        Ok(results.into_iter().map(|it| Value::new((it, true))).collect())
    }

    /// Batches a `scan` with a trip count that differs between lanes, at most the number of rows of the stacks.
    /// `operands` are those after that count.
    pub(super) fn scan(&self, count: &Tensor, operands: &[Value]) -> Result<Vec<Value>> {
        let (batcher, body) = (self.batcher, &self.node.regions[0]);
        let &Loop { carries, sequences: elements, .. } = self.at;
        let reverse = self.at.reverse();
        let mut start = operands.to_vec();
        for value in &mut start[..carries] {
            *value = Value::new((batcher.spread(value)?, true));
        }
        let mapped = flags(&start);
        let most = if batcher.has_lanes() { ops::max(count, 0) } else { Tensor::scalar(0i64) };
        let step = if reverse { -1 } else { 1 };
        let first = if reverse { ops::sub(&most, 1) } else { Tensor::scalar(0i64) };
        // Carries: the index, then those of the loop. Invariants: the trip counts first.
        let mut inputs = vec![most, first];
        inputs.extend(tensors(&start[..carries + elements]));
        inputs.push(count.clone());
        inputs.extend(tensors(&start[carries + elements..]));

        let mut types = vec![Type::of(DType::I64, &[])];
        types.extend(body.inputs().iter().zip(&mapped).map(|(&it, &mapped)| batcher.ty(body.ty(it), mapped)));
        types.insert(1 + carries + elements, count.ty());
        let speculated = is_speculatable(body);
        let mut masked = build(self.node, body.name(), &types, |inputs| {
            let mut inputs = inputs.to_vec();
            let count = inputs.remove(1 + carries + elements);
            let position = inputs.remove(0);
            let active = ops::less(&position, &count);
            let operands: Vec<Value> = inputs.into_iter().zip(mapped.iter().copied()).map(Value::new).collect();
            let results = self.body(body, speculated, &active, operands.clone())?;
            let mut outputs = vec![ops::add(&position, step)];
            outputs.extend(tensors(&self.carried(&active, &results[..carries], &operands[..carries])));
            for row in &results[carries..] {
                outputs.push(batcher.spread(row)?);
            }
            Ok(outputs)
        })?;
        let places = (0..types.len()).filter(|&at| at != 0 && at != 1 + carries + elements);
        masked.name_inputs_like(body, places);
        let scan = Control::Loop(Loop::scan(None, 1 + carries, elements, reverse));
        let mut results = emit(self.node, &scan, &[Arc::new(masked)], &inputs)?;
        results.remove(0);
        Ok(results.into_iter().map(|it| Value::new((it, true))).collect())
    }
}
