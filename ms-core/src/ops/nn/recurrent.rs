//! Recurrent layers, one step after the other.

use crate::error::{Code, Error, OrRaise};
use crate::ops::rules::has_dims;
use crate::ops::{add, dense, mul, sigmoid, split, stack, sub, tanh};
use crate::tensor::{AsTensor, Dim, Tensor, lost};

/// A long short-term memory (Hochreiter and Schmidhuber, 1997) over `x` `[time, batch, in]`
/// from states `h` and `c` `[batch, hidden]`, with weights `[4 hidden, in]` and `[4 hidden,
/// hidden]` and biases `[4 hidden]` in the order input, forget, cell, output gate:
///
/// `c' = f c + i g`, `h' = o tanh(c')`. Gives all `h'` `[time, batch, hidden]`, and the last states.
///
/// # Panics
/// Raises [`Code::Shape`] when shapes do not fit.
///
/// ```
/// use ms_core::{ops, tensor};
/// // One step of one unit whose weights are zero: half of the old cell stays.
/// let (x, h, c) = (tensor![[[1.]]], tensor![[0.]], tensor![[4.]]);
/// let zeros = ops::zeros([4, 1]);
/// let (y, _, c) = ops::lstm(&x, (&h, &c), (&zeros, &zeros), None);
/// assert_eq!((y.shape(), c.to_vec::<f32>()), (&[1, 1, 1][..], vec![2.]));
/// ```
#[track_caller]
pub fn lstm(
    x: impl AsTensor,
    (h, c): (&Tensor, &Tensor),
    (w_ih, w_hh): (&Tensor, &Tensor),
    bias: Option<(&Tensor, &Tensor)>,
) -> (Tensor, Tensor, Tensor) {
    check_states("lstm", &x.as_tensor(), &[("h", h), ("c", c)], (w_ih, w_hh), 4);
    let inputs = steps("lstm", &x.as_tensor(), w_ih, bias.map(|it| it.0));
    let (mut h, mut c, mut outputs) = (h.clone(), c.clone(), Vec::with_capacity(inputs.len()));
    for input in &inputs {
        let gates = split(add(input, dense(&h, w_hh, bias.map(|it| it.1))), 4, -1);
        let [i, f, g, o] = [sigmoid(&gates[0]), sigmoid(&gates[1]), tanh(&gates[2]), sigmoid(&gates[3])];
        c = add(mul(f, &c), mul(i, g));
        h = mul(o, tanh(&c));
        outputs.push(h.clone());
    }
    (stack(&outputs, 0), h, c)
}

/// Gated recurrent units (Cho et al., 2014) over `x` `[time, batch, in]` from the state `h`
/// `[batch, hidden]`, with weights `[3 hidden, in]` and `[3 hidden, hidden]` and biases `[3
/// hidden]` in the order reset, update, new gate:
///
/// `n = tanh(W_in x + b_in + r (W_hn h + b_hn))`, `h' = (1 - z) n + z h`. Gives all `h'`
/// `[time, batch, hidden]`, and the last one.
///
/// # Panics
/// Raises [`Code::Shape`] when shapes do not fit.
///
/// ```
/// use ms_core::{ops, tensor};
/// // One step of one unit whose weights are zero: half of the old state stays.
/// let (x, h) = (tensor![[[1.]]], tensor![[4.]]);
/// let zeros = ops::zeros([3, 1]);
/// let (y, h) = ops::gru(&x, &h, (&zeros, &zeros), None);
/// assert_eq!((y.shape(), h.to_vec::<f32>()), (&[1, 1, 1][..], vec![2.]));
/// ```
#[track_caller]
pub fn gru(
    x: impl AsTensor,
    h: &Tensor,
    (w_ih, w_hh): (&Tensor, &Tensor),
    bias: Option<(&Tensor, &Tensor)>,
) -> (Tensor, Tensor) {
    check_states("gru", &x.as_tensor(), &[("h", h)], (w_ih, w_hh), 3);
    let inputs = steps("gru", &x.as_tensor(), w_ih, bias.map(|it| it.0));
    let (mut h, mut outputs) = (h.clone(), Vec::with_capacity(inputs.len()));
    for input in &inputs {
        let from_input = split(input, 3, -1);
        let from_state = split(dense(&h, w_hh, bias.map(|it| it.1)), 3, -1);
        let r = sigmoid(add(&from_input[0], &from_state[0]));
        let z = sigmoid(add(&from_input[1], &from_state[1]));
        let n = tanh(add(&from_input[2], mul(r, &from_state[2])));
        h = add(&n, mul(z, sub(&h, &n)));
        outputs.push(h.clone());
    }
    (stack(&outputs, 0), h)
}

/// Whether states are `[batch, hidden]`, and both weights have `gates` rows for each hidden unit.
#[track_caller]
fn check_states(op: &str, x: &Tensor, states: &[(&str, &Tensor)], (w_ih, w_hh): (&Tensor, &Tensor), gates: usize) {
    if lost(&[x, w_ih, w_hh]).is_some() || states.iter().any(|it| it.1.is_poisoned()) || x.rank() != 3 {
        return;
    }
    let hidden = states[0].1.dims().last().copied().unwrap_or(Dim::new(1));
    let features = x.dims()[2];
    for &(name, state) in states {
        has_dims(op, name, state, &[x.dims()[1], hidden]).or_raise();
    }
    has_dims(op, "w_ih", w_ih, &[hidden * gates, features]).or_raise();
    has_dims(op, "w_hh", w_hh, &[hidden * gates, hidden]).or_raise();
}

/// What the gates of each step get from the input: one product for all steps.
#[track_caller]
fn steps(op: &str, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Vec<Tensor> {
    let count = x.dims().first().and_then(|it| it.as_const()).filter(|&it| x.rank() == 3 && it > 0);
    let refuse = || {
        let error = Error::new(Code::Shape, "an input of time, batch and features is needed, of one step at least");
        error.with_op(op).with_operands([x.ty().to_string()])
    };
    let count = count.ok_or_else(refuse).or_raise();
    let gates = dense(x, weight, bias);
    (0..count).map(|step| gates.at(step)).collect()
}
