//! Guards code that runs for lanes which do not take it.

use super::{Batcher, Sides, Value, build, emit, is_stack, parts, rebuilt};
use ms_ir::MapVec;
use ms_ir::error::Result;
use ms_ir::{Graph, Node, Type};
use ms_ops::ops::{self, Control, Loop};
use ms_ops::tensor::{DType, Dim, Dims, Scalar, Tensor};
use std::rc::Rc;
use std::sync::Arc;

/// Returns whether a graph may run on arbitrary operands. It must terminate, and no value may cause an error. No
/// derivative may be infinite at finite operands: it would turn the zero gradient of an unused result into a NaN.
pub(super) fn is_speculatable(graph: &Graph) -> bool {
    graph.nodes().all(|(_, node)| match Control::of(node) {
        None => {
            let def = ops::definition(node.op);
            def.effects.are_speculatable() && ops::transform_rules(def).finite_derivatives
        }
        Some(Control::Call { .. } | Control::Recompute | Control::CustomVjp(_)) => {
            node.regions.iter().all(|it| is_speculatable(it))
        }
        Some(Control::Branch | Control::Loop(_) | Control::TransformNode(_)) => false,
    })
}

/// Returns the mask of the lanes, `[lanes]`, broadcastable to values of a rank.
pub(super) fn expand_mask(mask: &Tensor, rank: usize) -> Tensor {
    let dims: Dims = mask.dims().into_iter().chain(std::iter::repeat_n(Dim::new(1), rank - 1)).collect();
    ops::reshape(mask, dims)
}

impl Batcher {
    /// Batches an `if` whose condition differs between lanes: runs both arms and selects.
    pub(super) fn choice(&self, node: &Node, condition: &Tensor, operands: &[Value]) -> Result<Vec<Value>> {
        let arm = |at: usize, active: &Tensor| {
            let side = |it: &Value| it.split().map_or_else(|| it.clone(), |it| it.each[at].clone());
            let operands: Vec<Value> = operands.map_vec(side);
            match is_speculatable(&node.regions[at]) {
                true => self.replay(&node.regions[at], operands),
                false => self.guarded(node, at, active, &operands),
            }
        };
        let (yes, no) = (arm(0, condition)?, arm(1, &ops::logical_not(condition))?);
        Ok(yes.into_iter().zip(no).map(|(yes, no)| chosen(condition, yes, no)).collect())
    }

    /// Runs the arm of an `if` for the lanes that take it, on operands that are valid for it. Returns zeros if no lane
    /// does.
    fn guarded(&self, node: &Node, arm: usize, active: &Tensor, operands: &[Value]) -> Result<Vec<Value>> {
        let region = &node.regions[arm];
        let inputs: Vec<Tensor> = std::iter::once(active.clone()).chain(parts(operands)).collect();
        let types: Vec<Type> = inputs.map_vec(Tensor::ty);
        let mut outputs = Vec::new();
        let taken = build(node, region.name(), &types, |inputs| {
            let (active, given) = inputs.split_first().expect("the mask stands first");
            outputs = self.replay(region, self.protected(active, &rebuilt(operands, given)))?;
            Ok(parts(&outputs))
        })?;
        let skipped = build(node, "skipped", &types, |_| {
            taken.outputs().iter().map(|&it| nothing(node, taken.ty(it))).collect()
        })?;
        let inputs: Vec<Tensor> = std::iter::once(ops::any(active, ())).chain(inputs).collect();
        let results = emit(node, &Control::Branch, &[Arc::new(taken), Arc::new(skipped)], &inputs)?;
        Ok(rebuilt(&outputs, &results))
    }

    /// Replaces operands in lanes outside the mask by the values of the first lane inside. These are a consistent set
    /// for which the code is valid.
    pub(super) fn protected(&self, active: &Tensor, operands: &[Value]) -> Vec<Value> {
        if !self.has_lanes() {
            return operands.to_vec();
        }
        let lane = ops::argmax(ops::cast(active, DType::U8), 0);
        let protect = |it: &Value| {
            let ty = it.tensor.ty();
            if !it.mapped || is_stack(&ty) {
                return it.clone();
            }
            let other = ops::stop_gradient(ops::wrapping::gather(&it.tensor, &lane, 0));
            Value::new((ops::select(expand_mask(active, ty.rank()), &it.tensor, other), true))
        };
        operands.map_vec(protect)
    }
}

/// Selects the first value in the lanes of a mask, and the second one in the others.
pub(super) fn chosen(mask: &Tensor, yes: Value, no: Value) -> Value {
    let ty = yes.tensor.ty();
    let tensor = if is_stack(&ty) {
        yes.tensor.clone()
    } else {
        let rank = ty.rank() + usize::from(!yes.mapped);
        ops::select(expand_mask(mask, rank), &yes.tensor, &no.tensor)
    };
    let keeps = is_stack(&ty) || ty.dtype == DType::I64;
    let sides = keeps.then(|| Rc::new(Sides { mask: mask.clone(), each: [yes, no] }));
    Value { tensor, mapped: true, sides }
}

/// Returns zeros of a type, or an empty stack.
fn nothing(node: &Node, ty: &Type) -> Result<Tensor> {
    let zeros = |dims: &[Dim]| ops::full_of(dims, Scalar::Int(0), ty.dtype);
    if !is_stack(ty) {
        return Ok(zeros(&ty.dims));
    }
    let never = build(node, "never", &[], |_| Ok(vec![Tensor::scalar(false)]))?;
    let row = build(node, "row", &[], |_| Ok(vec![zeros(&ty.dims[1..])]))?;
    let mut results = emit(node, &Control::Loop(Loop::repeat(0)), &[Arc::new(never), Arc::new(row)], &[])?;
    Ok(results.pop().expect("a count and a stack"))
}
