//! Imports branches and loops.

use super::model::{Attribute, Graph};
use super::value::Value;
use super::{Applied, outputs};
use ms_ir::error::OrRaise;
use ms_ops::tensor::{DType, Dim, Dims, Scalar};
use ms_ops::{Result, Tensor, ops};
use ms_trace::trace::{cond, scan, while_loop};

/// Imports a branch or a loop; returns `None` for any other operator.
///
/// # Errors
/// [`Code::Io`](ms_ir::Code::Io) for an unsupported form of the operator.
pub fn apply(node: &Applied<'_>) -> Result<Option<Vec<Tensor>>> {
    Ok(Some(match node.node.operator.as_str() {
        "If" => {
            let (yes, no) = (node.graph("then_branch")?, node.graph("else_branch")?);
            let condition = node.tensor(0)?.reshape(());
            cond(condition, |_: &()| node.run(yes, &[]), |_| node.run(no, &[]), &())
        }
        "Loop" => repeated(node)?,
        "Scan" => scanned(node)?,
        _ => return Ok(None),
    }))
}

impl Applied<'_> {
    /// Runs a graph of the node with these inputs.
    fn run(&self, graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
        let own = graph.initializers.iter().map(|(name, it)| {
            let value = Tensor::placed(it.clone()).map(Value::Constant).or_raise();
            (name.as_str(), value)
        });
        let given = graph.inputs.iter().map(String::as_str).zip(inputs.iter().cloned().map(Value::Tensor));
        let outer = self.outer.iter().map(|(name, value)| (*name, value.clone()));
        outputs(graph, outer.chain(own).chain(given).collect()).or_raise()
    }
}

/// Imports a loop with a condition, a number of iterations, or both.
fn repeated(node: &Applied<'_>) -> Result<Vec<Tensor>> {
    let body = node.graph("body")?;
    let carries = node.tensors(2)?;
    if body.inputs.len() != carries.len() + 2 || body.outputs.len() <= carries.len() {
        return Err(node.unsupported("with a body of other inputs or outputs"));
    }
    if body.outputs.len() > carries.len() + 1 {
        return counted(node, body, carries);
    }
    let limit = node.optional(0).map(|it| it.reshape(()));
    let holds = node.optional(1).map_or_else(|| Tensor::scalar(true), |it| it.reshape(()));
    let init: Vec<Tensor> = [Tensor::scalar(0i64), holds].into_iter().chain(carries).collect();
    let goes_on = |state: &Vec<Tensor>| match &limit {
        Some(limit) => ops::logical_and(&state[1], ops::less(&state[0], limit)),
        None => state[1].clone(),
    };
    let step = |state: &Vec<Tensor>| {
        let mut results = node.run(body, state);
        results[0] = results[0].reshape(());
        std::iter::once(&state[0] + 1i64).chain(results).collect()
    };
    Ok(while_loop(goes_on, step, init).split_off(2))
}

/// Imports a loop that stacks values of all iterations, as a scan over the iteration numbers. Their count must not vary
/// between calls.
fn counted(node: &Applied<'_>, body: &Graph, carries: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let count = node.operands.first().and_then(|it| it.as_ref()?.integers());
    let begins = node.operands.get(1).and_then(Option::as_ref);
    let Some(&[count]) = count.as_deref() else {
        return Err(node.unsupported("that returns values of all iterations, whose number depends on data"));
    };
    if !begins.is_none_or(is_true) || !passes_condition(node, body) {
        return Err(node.unsupported("that returns values of all iterations, and may end before the last"));
    }
    let count = Dim::new(count.max(0) as usize);
    let numbers = ops::iota([count].into_iter().collect::<Dims>(), 0, DType::I64);
    let kept = carries.len();
    let step = |state: &Vec<Tensor>, number: &Tensor| {
        let head = [number.clone(), Tensor::scalar(true)];
        let mut results = node.run(body, &[&head[..], state].concat()).split_off(1);
        let rows = results.split_off(kept);
        (results, rows)
    };
    let (mut results, rows) = scan(step, carries, &numbers);
    results.extend(rows);
    Ok(results)
}

fn is_true(value: &Value) -> bool {
    value.scalar() == Some(Scalar::Bool(true))
}

/// Returns whether the body passes its condition through, or computes a constant true.
fn passes_condition(node: &Applied<'_>, body: &Graph) -> bool {
    let mut name = &body.outputs[0];
    // The bound stops at a cycle: a longer chain would visit a node twice.
    for _ in 0..=body.nodes.len() {
        if *name == body.inputs[1] {
            return true;
        }
        if let Some((_, value)) = body.initializers.iter().find(|it| it.0 == *name) {
            return is_true(&Value::Constant(Tensor::from_array(value.clone())));
        }
        let Some(by) = body.nodes.iter().find(|it| it.outputs.first() == Some(name)) else {
            return node.outer.get(name.as_str()).is_some_and(is_true);
        };
        match (by.operator.as_str(), by.inputs.first(), by.attribute("value")) {
            ("Identity", Some(from), _) => name = from,
            ("Constant", _, Some(Attribute::Tensor(value))) => {
                return is_true(&Value::Constant(Tensor::from_array(value.clone())));
            }
            _ => return false,
        }
    }
    false
}

/// Imports a loop over the elements of sequences.
fn scanned(node: &Applied<'_>) -> Result<Vec<Tensor>> {
    let body = node.graph("body")?;
    let all = node.tensors(0)?;
    let sequences = usize::try_from(node.int("num_scan_inputs", 0)?).unwrap_or(0);
    let Some(carries) = all.len().checked_sub(sequences).filter(|&it| sequences > 0 && it <= body.outputs.len()) else {
        return Err(node.unsupported("without sequences"));
    };
    for name in ["scan_input_axes", "scan_output_axes"] {
        if node.ints(name)?.is_some_and(|it| it.iter().any(|&it| it != 0)) {
            return Err(node.unsupported("along another axis than the first"));
        }
    }
    let (init, xs) = all.split_at(carries);
    let xs = flipped(xs.to_vec(), node.ints("scan_input_directions")?);
    let step = |state: &Vec<Tensor>, element: &Vec<Tensor>| {
        let mut results = node.run(body, &[&state[..], &element[..]].concat());
        let rows = results.split_off(carries);
        (results, rows)
    };
    let (mut results, rows) = scan(step, init.to_vec(), &xs);
    results.extend(flipped(rows, node.ints("scan_output_directions")?));
    Ok(results)
}

/// Flips the sequences with direction 1, which run from last to first.
fn flipped(all: Vec<Tensor>, directions: Option<Vec<i64>>) -> Vec<Tensor> {
    let is_turned = |at: usize| directions.as_ref().is_some_and(|it| it.get(at) == Some(&1));
    all.into_iter().enumerate().map(|(at, it)| if is_turned(at) { ops::flip(&it, 0) } else { it }).collect()
}
