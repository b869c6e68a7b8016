//! Branches and loops.

use super::model::Graph;
use super::value::Value;
use super::{Applied, outputs};
use ms_core::error::OrRaise;
use ms_core::trace::{cond, scan, while_loop};
use ms_core::{Result, Tensor, ops};

/// The results of a branch or a loop; `None` for any other operator.
///
/// # Errors
/// [`Code::Io`](ms_core::Code::Io) for a form of it that is not supported.
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
    /// The results of a graph of the node for these inputs.
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

/// A loop with a condition, a number of iterations, or both.
fn repeated(node: &Applied<'_>) -> Result<Vec<Tensor>> {
    let body = node.graph("body")?;
    let carries = node.tensors(2)?;
    if body.inputs.len() != carries.len() + 2 || body.outputs.len() != carries.len() + 1 {
        return Err(node.unsupported("that returns the values of all iterations"));
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

/// A loop over the elements of sequences.
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
    let xs = turned(xs.to_vec(), node.ints("scan_input_directions")?);
    let step = |state: &Vec<Tensor>, element: &Vec<Tensor>| {
        let mut results = node.run(body, &[&state[..], &element[..]].concat());
        let rows = results.split_off(carries);
        (results, rows)
    };
    let (mut results, rows) = scan(step, init.to_vec(), &xs);
    results.extend(turned(rows, node.ints("scan_output_directions")?));
    Ok(results)
}

/// Sequences, of which some are from last to first.
fn turned(all: Vec<Tensor>, directions: Option<Vec<i64>>) -> Vec<Tensor> {
    let is_turned = |at: usize| directions.as_ref().is_some_and(|it| it.get(at) == Some(&1));
    all.into_iter().enumerate().map(|(at, it)| if is_turned(at) { ops::flip(&it, 0) } else { it }).collect()
}
