//! Computes tangents of the results of one op from its vector-Jacobian product.
//!
//! The VJP is linear in the gradients of the results, and the JVP is its transpose. An elementwise op needs no
//! transposition: its Jacobian is diagonal.

use super::reverse::value_and_grad;
use super::split::{pruned, trimmed};
use super::tape::{RuleEntry, no_derivative};
use super::vanishing::vanishes;
use crate::trace;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Memo, ValueId};
use ms_ops::ops::{self, Derivative, Lowering, OpDef, Vjp};
use ms_ops::tensor::{Attrs, Op, Tensor, Type, apply};
use smallvec::SmallVec;
use std::panic::Location;

/// An application of an op.
pub(super) struct Pushed<'a> {
    pub op: Op,
    pub attrs: &'a Attrs,
    pub inputs: &'a [Tensor],
    pub outputs: &'a [Tensor],
    pub location: &'static Location<'static>,
}

/// Returns the tangents of the results; `None` if these do not depend on operands with a tangent. Ops are applied
/// through the current dispatcher.
///
/// # Errors
/// [`Code::NoGradient`](ms_ir::Code::NoGradient) when there is no rule.
pub(super) fn push(call: &Pushed<'_>, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let def = ops::definition(call.op);
    let none = || Ok(vec![None; call.outputs.len()]);
    let given: Vec<usize> = (0..tangents.len()).filter(|&at| tangents[at].is_some()).collect();
    if !call.outputs.iter().any(|it| it.dtype().is_float()) {
        return none();
    }
    match &ops::transform_rules(def).derivative {
        Derivative::Zero => none(),
        Derivative::Body => unreachable!("the ops of the body are applied in its place"),
        Derivative::None(why) => {
            let operands = call.inputs.iter().map(|it| it.ty().to_string());
            Err(no_derivative(call.op, given[0], why).with_operands(operands).at(call.location))
        }
        // A composite may be linear with exceptions, such as rows without a gradient.
        Derivative::Read(_) if matches!(def.lowering, Lowering::Composite(_)) => {
            transposed(def, call, tangents, &given)
        }
        // The op is linear in its operand.
        Derivative::Read(_) => {
            let Some(tangent) = &tangents[0] else { return none() };
            let operands = std::iter::once(tangent).chain(&call.inputs[1..]);
            let pushed = apply(call.op, call.attrs, &operands.collect::<SmallVec<[&Tensor; 3]>>())?;
            Ok(pushed.into_iter().map(Some).collect())
        }
        Derivative::Rule(rule) => {
            let dtype = call.outputs[0].dtype();
            let is_diagonal =
                matches!(def.lowering, Lowering::Map(_)) && given.iter().all(|&at| call.inputs[at].dtype() == dtype);
            match is_diagonal {
                true => Ok(vec![diagonal(*rule, call, tangents, &given)]),
                false => transposed(def, call, tangents, &given),
            }
        }
    }
}

/// Pushes tangents through a recorded entry.
///
/// # Errors
/// [`Code::NoGradient`](ms_ir::Code::NoGradient) when there is no rule.
pub fn push_rule(step: &RuleEntry, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let (inputs, outputs) = (&step.inputs[..], &step.outputs[..]);
    push(&Pushed { op: step.op, attrs: &step.attrs, inputs, outputs, location: step.location }, tangents)
}

type Rule = fn(&Vjp<'_>) -> ops::Cotangents;

/// Returns the tangent of an elementwise op's result. The tangent of each operand has the weight of its gradient.
fn diagonal(rule: Rule, call: &Pushed<'_>, tangents: &[Option<Tensor>], given: &[usize]) -> Option<Tensor> {
    let dims = call.outputs[0].ty().dims;
    let spread = |x: &Tensor| if x.ty().dims == dims { x.clone() } else { ops::broadcast_to(x, dims.clone()) };
    let inputs: Vec<Tensor> = call.inputs.map_vec(spread);
    let share = |&at: &usize| {
        let needs: SmallVec<[bool; 3]> = (0..inputs.len()).map(|it| it == at).collect();
        let cotangents = [tangents[at].as_ref().map(spread)];
        let vjp =
            Vjp { attrs: call.attrs, inputs: &inputs, outputs: call.outputs, cotangents: &cotangents, needs: &needs };
        rule(&vjp).into_iter().nth(at).flatten()
    };
    given.iter().filter_map(share).reduce(|a, b| ops::add(&a, &b))
}

/// Returns whether the first `results` outputs of a graph without transforms are linear in its first `inputs` inputs,
/// as far as its ops show.
///
/// # Errors
/// [`Code::NoGradient`](ms_ir::Code::NoGradient) when an op on the path has no derivative.
pub fn is_linear(graph: &Graph, inputs: usize, results: usize) -> Result<bool> {
    let wrt: Vec<usize> = (0..inputs).collect();
    Ok(transpose(graph, &wrt, results)?.is_some())
}

/// Transposes a graph whose first `results` outputs are linear in its inputs `wrt`. The transpose maps the inputs, of
/// which it does not read `wrt`, and the gradients of the outputs to the gradients of `wrt`. Returns `None` if the
/// graph is not linear: the gradients depend on these inputs, or the outputs do not vanish with them.
///
/// # Errors
/// [`Code::NoGradient`](ms_ir::Code::NoGradient) when an op on the path has no derivative.
pub(super) fn transpose(graph: &Graph, wrt: &[usize], results: usize) -> Result<Option<Graph>> {
    let mut transposed = value_and_grad(graph, wrt, results, true, true)?;
    transposed.set_outputs(transposed.outputs()[graph.outputs().len()..].to_vec());
    let (_, read) = trimmed(&transposed);
    let is_linear = !read.iter().any(|it| wrt.contains(it)) && vanishes(graph, wrt, results)?;
    Ok(is_linear.then(|| pruned(&transposed)))
}

/// The key of a transposed rule: op, attributes, types of the operands, operands with tangents.
type Key = (u16, Attrs, Vec<Type>, Vec<usize>);

thread_local! {
    static TRANSPOSED: Memo<Key> = Memo::default();
}

fn transposed(
    def: &'static OpDef,
    call: &Pushed<'_>,
    tangents: &[Option<Tensor>],
    given: &[usize],
) -> Result<Vec<Option<Tensor>>> {
    let types: Vec<Type> = call.inputs.map_vec(Tensor::ty);
    let key = (def.info.number, call.attrs.clone(), types, given.to_vec());
    let graph = TRANSPOSED.with(|it| it.get_or_build(key, |_| transposed_rule(def, call, given)))?;
    let floats = || call.outputs.iter().filter(|it| it.dtype().is_float());
    let inputs: Vec<Tensor> = call
        .inputs
        .iter()
        .chain(call.outputs)
        .cloned()
        .chain(floats().map(ops::zeros_like))
        .chain(given.iter().filter_map(|&at| tangents[at].clone()))
        .collect();
    let mut pushed = apply_graph(&graph, &inputs)?.into_iter();
    Ok(call.outputs.map_vec(|it| if it.dtype().is_float() { pushed.next() } else { None }))
}

/// Transposes the rule. The transpose returns the tangents of the float results. It takes the operands, the results,
/// gradients of the float results (with irrelevant values), and the tangents of the operands `given`.
fn transposed_rule(def: &'static OpDef, call: &Pushed<'_>, given: &[usize]) -> Result<Graph> {
    let types = |tensors: &[Tensor]| tensors.iter().map(Tensor::ty).collect::<Vec<Type>>();
    let is_float: Vec<bool> = call.outputs.map_vec(|it| it.dtype().is_float());
    let (inputs, outputs) = (types(call.inputs), types(call.outputs));
    let gradients: Vec<Type> = outputs.iter().filter(|it| it.dtype.is_float()).cloned().collect();
    let known = inputs.len() + outputs.len();
    let wrt: Vec<usize> = (known..known + gradients.len()).collect();
    let all = [inputs.clone(), outputs, gradients].concat();
    let needs: Vec<bool> = (0..inputs.len()).map(|at| given.contains(&at)).collect();
    let pulled = trace::build(def.name(), &all, |tensors| {
        let (inputs, rest) = tensors.split_at(inputs.len());
        let (outputs, gradients) = rest.split_at(call.outputs.len());
        let mut gradients = gradients.iter();
        let cotangents: Vec<Option<Tensor>> = is_float.map_vec(|&it| if it { gradients.next().cloned() } else { None });
        let attrs = call.attrs;
        let vjp = Vjp { attrs, inputs, outputs, cotangents: &cotangents, needs: &needs };
        let shares = ops::transform_rules(def).pull(&vjp).expect("the op has a rule");
        let share = |&at: &usize| shares[at].clone().unwrap_or_else(|| ops::zeros_like(&inputs[at]));
        Ok(given.map_vec(share))
    })?;
    transpose(&pulled, &wrt, given.len())?.ok_or_else(|| not_linear(call.op.name()).at(call.location))
}

/// Returns the error of a reverse-mode derivative without a transpose.
pub(super) fn not_linear(op: &'static str) -> Error {
    let message = "the derivative is not linear in the gradient of the result";
    Error::new(Code::CustomTangent, message)
        .with_op(op)
        .help("forward mode is its transpose; take derivatives of this function in reverse mode only")
}

/// Applies a graph without regions through the current dispatcher, and returns its outputs.
fn apply_graph(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut values: Vec<Option<Tensor>> = vec![None; graph.value_count()];
    for (id, input) in graph.inputs().iter().zip(inputs) {
        values[id.0 as usize] = Some(input.clone());
    }
    for (_, node) in graph.nodes() {
        let outputs = {
            let operand = |it: &ValueId| values[it.0 as usize].as_ref().expect("defined before its use");
            apply(node.op, &node.attrs, &node.inputs.iter().map(operand).collect::<SmallVec<[&Tensor; 3]>>())?
        };
        for (id, output) in node.outputs.iter().zip(outputs) {
            values[id.0 as usize] = Some(output);
        }
    }
    Ok(graph.outputs().map_vec(|it| values[it.0 as usize].clone().expect("outputs are defined")))
}
