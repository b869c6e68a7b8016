//! Imports recurrent layers.

use super::Applied;
use ms_ops::{Result, Tensor, ops};
use ms_trace::trace::scan;

/// Imports a recurrent layer. Returns all outputs `[time, directions, batch, hidden]` and the last states, or `None`
/// for any other operator.
///
/// # Errors
/// [`Code::Io`](ms_ir::Code::Io) for an unsupported form of the operator.
pub fn apply(node: &Applied<'_>) -> Result<Option<Vec<Tensor>>> {
    // ONNX orders the gates as input, output, forget, cell for LSTM, and as update, reset, new for GRU.
    let operator = node.node.operator.as_str();
    let (blocks, states): (&[usize], usize) = match operator {
        "LSTM" => (&[0, 2, 3, 1], 2),
        "RNN" => (&[0], 1),
        "GRU" if node.int("linear_before_reset", 0)? != 0 => (&[1, 0, 2], 1),
        "GRU" => return Err(node.unsupported("without `linear_before_reset`")),
        _ => return Ok(None),
    };
    let activations = node.texts("activations")?;
    let is_own =
        |all: &[String]| all.chunks(3).all(|it| ["Sigmoid", "Tanh", "Tanh"].iter().zip(it).all(|(a, b)| a == b));
    for name in ["activations", "activation_alpha", "activation_beta", "clip", "input_forget", "layout"] {
        let is_default = match name {
            "activations" => operator == "RNN" || operator == "LSTM" && activations.is_some_and(is_own),
            "input_forget" | "layout" => node.int(name, 0)? == 0,
            _ => false,
        };
        if node.attribute(name).is_some() && !is_default {
            return Err(node.unsupported(&format!("with the attribute `{name}`")));
        }
    }
    if node.optional(4).is_some() || node.optional(7).is_some() {
        return Err(node.unsupported("with lengths or peepholes"));
    }
    let reversed: &[bool] = match node.text("direction", "forward")?.as_str() {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        _ => return Err(node.unsupported("in this direction")),
    };
    let (x, bias) = (node.tensor(0)?, node.optional(3));
    let weights = [node.tensor(1)?, node.tensor(2)?];
    let is_list = bias.as_ref().is_none_or(|it| it.rank() == 2);
    if x.rank() != 3 || weights.iter().any(|it| it.rank() != 3) || !is_list {
        return Err(node.unsupported("with operands of other ranks"));
    }
    let mut results: Vec<Vec<Tensor>> = vec![Vec::new(); 1 + states];
    for (at, &reverse) in reversed.iter().enumerate() {
        let at = at as isize;
        let ordered = |of: &Tensor| {
            let parts = ops::split(of, blocks.len(), 0);
            ops::concat(&blocks.iter().map(|&it| &parts[it]).collect::<Vec<_>>(), 0)
        };
        let [w, r] = weights.each_ref().map(|it| ordered(&it.i(at)));
        let hidden = r.dims()[1];
        let bias = bias.as_ref().map(|it| ops::split(it.i(at), 2, 0).iter().map(ordered).collect::<Vec<_>>());
        let bias = bias.as_ref().map(|it| (&it[0], &it[1]));
        let initial = |operand: usize| match node.optional(operand) {
            Some(it) => it.i(at),
            None => ops::broadcast_to(ops::zeros(()).cast(x.dtype()), (x.dims()[1], hidden)),
        };
        let sequence = if reverse { ops::flip(&x, 0) } else { x.clone() };
        let (all, last) = match states {
            2 => {
                let (all, h, c) = ops::lstm(&sequence, (&initial(5), &initial(6)), (&w, &r), bias);
                (all, vec![h, c])
            }
            _ if operator == "GRU" => {
                let (all, h) = ops::gru(&sequence, &initial(5), (&w, &r), bias);
                (all, vec![h])
            }
            _ => {
                let name = activations.map_or(Some("Tanh"), |it| it.get(at as usize).map(String::as_str));
                let activation: fn(Tensor) -> Tensor = match name {
                    Some("Tanh") => |x| ops::tanh(x),
                    Some("Relu") => |x| ops::relu(x),
                    Some("Sigmoid") => |x| ops::sigmoid(x),
                    _ => return Err(node.unsupported("with this activation")),
                };
                let (all, h) = simple(&sequence, initial(5), (&w, &r), bias, activation);
                (all, vec![h])
            }
        };
        results[0].push(if reverse { ops::flip(&all, 0) } else { all });
        results[1..].iter_mut().zip(last).for_each(|(all, it)| all.push(it));
    }
    let stacked = |(at, parts): (usize, Vec<Tensor>)| ops::stack(&parts, if at == 0 { 1 } else { 0 });
    Ok(Some(results.into_iter().enumerate().map(stacked).collect()))
}

/// Runs a layer without gates: `h' = f(W x + b + R h + c)`. Returns all `h'` and the last one.
fn simple(
    x: &Tensor,
    h: Tensor,
    (w, r): (&Tensor, &Tensor),
    bias: Option<(&Tensor, &Tensor)>,
    activation: fn(Tensor) -> Tensor,
) -> (Tensor, Tensor) {
    let mut inputs = ops::matmul(x, ops::transpose(w, 0, 1));
    if let Some((of_input, of_state)) = bias {
        inputs = inputs + (of_input + of_state);
    }
    let r = ops::transpose(r, 0, 1);
    let step = |h: &Tensor, input: &Tensor| {
        let next = activation(input + ops::matmul(h, &r));
        (next.clone(), next)
    };
    let (last, all) = scan(step, h, &inputs);
    (all, last)
}
