//! Recurrent layers: scans over time, which are loops of graphs as well.

use super::dense::gradients as dense_gradients;
use crate::ops::core::rules::{check_dims, to_operand};
use crate::ops::core::wide::Inner;
use crate::ops::{
    BatchedCall, Batching, Cotangents, Derivative, OpDef, Sample, SampleInput, Vjp, add, broadcast_to, cast, concat,
    dense, mul, sigmoid, split, stack, sub, tanh, zeros_like,
};
use crate::tensor::{AsTensor, Attrs, DType, Dim, Outputs, Scan, Tensor, apply, dispatcher, first_poisoned, promote};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result, called};
use smallvec::smallvec;
use std::panic::Location;

composite! {
    /// Computes a step of an [`lstm`]. The results are the states `h'` and `c'`, then for the derivative the gates `i`,
    /// `f`, `g`, `o`, and `tanh c'`. The operands are the input's contribution to the gates `[batch, 4 hidden]`, `h`,
    /// `c`, the weight of the state, and its optional bias.
    LSTM_CELL = 870: "lstm_cell", &[];
    body |_, inputs| {
        let [input, h, c, weight, bias @ ..] = inputs else { unreachable!("a bias is the only operand that may lack") };
        let gates = split(add(*input, dense(*h, *weight, bias.first().copied())), 4, -1);
        let [i, f, g, o] = [sigmoid(&gates[0]), sigmoid(&gates[1]), tanh(&gates[2]), sigmoid(&gates[3])];
        let c = add(mul(&f, *c), mul(&i, &g));
        let shown = tanh(&c);
        smallvec![mul(&o, &shown), c, i, f, g, o, shown]
    };
    derivative Derivative::Rule(lstm_gradients), finite: true;
    inner Inner::Wide { rounded: 2 };
    batching Batching::Partial(|it| over_batches(it, 3));
    samples || {
        let of = |dtype| {
            let shapes: [&[usize]; 5] = [&[2, 12], &[2, 3], &[2, 3], &[12, 3], &[12]];
            Sample::new(shapes.map(|it| SampleInput::of(dtype, it, -1.0, 1.0)))
        };
        [DType::F32, DType::F64, DType::F16, DType::BF16].map(of).into()
    };
}

composite! {
    /// Computes a step of a [`gru`]. The results are the state `h'`, then for the derivative the gates `r`, `z`, `n`,
    /// and the state's contribution to `n`. The operands are the input's contribution to the gates `[batch, 3 hidden]`,
    /// `h`, the weight of the state, and its optional bias.
    GRU_CELL = 871: "gru_cell", &[];
    body |_, inputs| {
        let [input, h, weight, bias @ ..] = inputs else { unreachable!("a bias is the only operand that may lack") };
        let from_input = split(*input, 3, -1);
        let mut from_state = split(dense(*h, *weight, bias.first().copied()), 3, -1);
        let r = sigmoid(add(&from_input[0], &from_state[0]));
        let z = sigmoid(add(&from_input[1], &from_state[1]));
        let n = tanh(add(&from_input[2], mul(&r, &from_state[2])));
        let next = add(&n, mul(&z, sub(*h, &n)));
        smallvec![next, r, z, n, from_state.remove(2)]
    };
    // The state's contribution to `n` may overflow.
    derivative Derivative::Rule(gru_gradients), finite: false;
    batching Batching::Partial(|it| over_batches(it, 2));
    samples || {
        let of = |dtype| {
            let shapes: [&[usize]; 4] = [&[2, 9], &[2, 3], &[9, 3], &[9]];
            Sample::new(shapes.map(|it| SampleInput::of(dtype, it, -1.0, 1.0)))
        };
        [DType::F32, DType::F64, DType::F16, DType::BF16].map(of).into()
    };
}

fn lstm_gradients(it: &Vjp<'_>) -> Cotangents {
    let [to_h, to_next, to_i, to_f, to_g, to_o, to_shown] = it.cotangents else { unreachable!("there are 7 results") };
    let [_, _, i, f, g, o, shown] = it.outputs else { unreachable!("there are 7 results") };
    let c = &it.inputs[2];
    let to_o = total([times(to_h, shown), to_o.clone()]);
    let to_shown = total([times(to_h, o), to_shown.clone()]);
    let to_next = total([to_next.clone(), to_shown.map(|it| through_tanh(&it, shown))]);
    let to_i = total([times(&to_next, g), to_i.clone()]);
    let to_f = total([times(&to_next, c), to_f.clone()]);
    let to_g = total([times(&to_next, i), to_g.clone()]);
    let gates = concat(
        &[
            through_sigmoid(&or_zeros(to_i, i), i),
            through_sigmoid(&or_zeros(to_f, f), f),
            through_tanh(&or_zeros(to_g, g), g),
            through_sigmoid(&or_zeros(to_o, o), o),
        ],
        -1,
    );
    let mut all = state_gradients(&gates, it, 3);
    all.insert(0, it.needs[0].then(|| to_operand(&gates, &it.inputs[0])));
    all.insert(2, times(&to_next, f).map(|it| to_operand(&it, c)));
    all
}

fn gru_gradients(it: &Vjp<'_>) -> Cotangents {
    let [to_next, to_r, to_z, to_n, to_shared] = it.cotangents else { unreachable!("there are 5 results") };
    let [_, r, z, n, shared] = it.outputs else { unreachable!("there are 5 results") };
    let (input, h) = (&it.inputs[0], &it.inputs[1]);
    let to_z = total([times(to_next, &sub(h, n)), to_z.clone()]);
    let to_n = total([to_next.as_ref().map(|it| sub(it, mul(it, z))), to_n.clone()]);
    let to_n = to_n.map(|it| through_tanh(&it, n));
    let to_r = total([times(&to_n, shared), to_r.clone()]);
    let to_shared = or_zeros(total([times(&to_n, r), to_shared.clone()]), shared);
    let [to_r, to_z] = [(to_r, r), (to_z, z)].map(|(it, gate)| through_sigmoid(&or_zeros(it, gate), gate));
    let mut all = state_gradients(&concat(&[&to_r, &to_z, &to_shared], -1), it, 2);
    let direct = times(to_next, z).map(|it| to_operand(&it, h));
    all[0] = total([direct, all[0].take()]);
    let to_input = || to_operand(&concat(&[&to_r, &to_z, &or_zeros(to_n, n)], -1), input);
    all.insert(0, it.needs[0].then(to_input));
    all
}

/// Returns the gradients of the state, the weight and the bias from the gradient of the state's contribution to the
/// gates. `weight` is the index of the weight among the operands; the bias follows it.
fn state_gradients(gates: &Tensor, it: &Vjp<'_>, weight: usize) -> Cotangents {
    let operands: Vec<Tensor> = it.inputs[1..2].iter().chain(&it.inputs[weight..]).cloned().collect();
    let needs: Vec<bool> = it.needs[1..2].iter().chain(&it.needs[weight..]).copied().collect();
    dense_gradients(gates, &operands, &needs)
}

/// Sums the terms of a gradient.
fn total(terms: [Option<Tensor>; 2]) -> Option<Tensor> {
    terms.into_iter().flatten().reduce(add)
}

fn times(gradient: &Option<Tensor>, factor: &Tensor) -> Option<Tensor> {
    gradient.as_ref().map(|it| mul(it, factor))
}

fn or_zeros(gradient: Option<Tensor>, like: &Tensor) -> Tensor {
    gradient.unwrap_or_else(|| zeros_like(like))
}

/// Returns the gradient of `x` from the gradient of `y = tanh x`.
fn through_tanh(gradient: &Tensor, y: &Tensor) -> Tensor {
    gradient * (1.0 - y * y)
}

/// Returns the gradient of `x` from the gradient of `y = sigmoid x`.
fn through_sigmoid(gradient: &Tensor, y: &Tensor) -> Tensor {
    gradient * (y * (1.0 - y))
}

/// Batches a step by merging the lanes into the batch axis. The operands before `weight` are the input and the states.
fn over_batches(it: &BatchedCall<'_>, weight: usize) -> Option<Result<Outputs>> {
    let is_batch = (0..weight).all(|at| it.rank(at) == 2) && !it.mapped[weight..].contains(&true);
    is_batch.then(|| it.merged_to(weight))
}

/// Runs a long short-term memory (Hochreiter and Schmidhuber, 1997) over `x` `[time, batch, in]` from states `h` and
/// `c` `[batch, hidden]`. The weights are `[4 hidden, in]` and `[4 hidden, hidden]`, and the biases `[4 hidden]`, in
/// the order input, forget, cell, output gate:
///
/// `c' = f c + i g`, `h' = o tanh(c')`. Returns all `h'` `[time, batch, hidden]`, and the last states.
///
/// # Panics
/// Raises [`Code::Shape`] when shapes do not match.
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
    let _called = called("lstm");
    check_states("lstm", &x.as_tensor(), &[("h", h), ("c", c)], (w_ih, w_hh), 4);
    let steps = Steps::new("lstm", &x.as_tensor(), (w_ih, w_hh), bias);
    let step = |carries: &[Tensor], input: &Tensor| {
        let operands: Vec<&Tensor> = [input, &carries[0], &carries[1], w_hh].into_iter().chain(steps.bias).collect();
        states(&LSTM_CELL, &operands, 2)
    };
    let (mut last, all) = steps.run(&step, &[h, c]);
    let c = last.pop().expect("there are two carries");
    (all, last.pop().expect("there are two carries"), c)
}

/// Runs gated recurrent units (Cho et al., 2014) over `x` `[time, batch, in]` from the state `h` `[batch, hidden]`. The
/// weights are `[3 hidden, in]` and `[3 hidden, hidden]`, and the biases `[3 hidden]`, in the order reset, update, new
/// gate:
///
/// `n = tanh(W_in x + b_in + r (W_hn h + b_hn))`, `h' = (1 - z) n + z h`. Returns all `h'` `[time, batch, hidden]`, and
/// the last one.
///
/// # Panics
/// Raises [`Code::Shape`] when shapes do not match.
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
    let _called = called("gru");
    check_states("gru", &x.as_tensor(), &[("h", h)], (w_ih, w_hh), 3);
    let steps = Steps::new("gru", &x.as_tensor(), (w_ih, w_hh), bias);
    let step = |carries: &[Tensor], input: &Tensor| {
        let operands: Vec<&Tensor> = [input, &carries[0], w_hh].into_iter().chain(steps.bias).collect();
        states(&GRU_CELL, &operands, 1)
    };
    let (mut last, all) = steps.run(&step, &[h]);
    (all, last.pop().expect("there is a carry"))
}

/// Checks that states are `[batch, hidden]`, and that both weights have `gates` rows for each hidden unit.
#[track_caller]
fn check_states(op: &str, x: &Tensor, states: &[(&str, &Tensor)], (w_ih, w_hh): (&Tensor, &Tensor), gates: usize) {
    if first_poisoned(&[x, w_ih, w_hh]).is_some() || states.iter().any(|it| it.1.is_poisoned()) || x.rank() != 3 {
        return;
    }
    let hidden = states[0].1.dims().last().copied().unwrap_or(Dim::new(1));
    let features = x.dims()[2];
    for &(name, state) in states {
        check_dims(op, name, state, &[x.dims()[1], hidden]).or_raise();
    }
    check_dims(op, "w_ih", w_ih, &[hidden * gates, features]).or_raise();
    check_dims(op, "w_hh", w_hh, &[hidden * gates, hidden]).or_raise();
}

/// Returns the states after a step. A step that fails while tracing has more results.
#[track_caller]
fn states(def: &'static OpDef, operands: &[&Tensor], count: usize) -> Vec<Tensor> {
    apply(def.op(), &Attrs::none(), operands).or_raise().into_iter().take(count).collect()
}

/// The operands that all steps of a layer share.
struct Steps<'a> {
    /// The input's contribution to the gates of each step, `[time, batch, gates]`: one matrix product for all steps.
    inputs: Tensor,
    time: usize,
    batch: Dim,
    weight: &'a Tensor,
    bias: Option<&'a Tensor>,
}

impl<'a> Steps<'a> {
    #[track_caller]
    fn new(
        op: &str,
        x: &Tensor,
        (from_input, weight): (&Tensor, &'a Tensor),
        bias: Option<(&Tensor, &'a Tensor)>,
    ) -> Self {
        let time = x.dims().first().and_then(|it| it.as_const()).filter(|&it| x.rank() == 3 && it > 0);
        let refuse = || {
            let error = Error::new(Code::Shape, "an input of time, batch and features is needed, of one step at least");
            error.with_op(op).with_operands([x.ty().to_string()])
        };
        let time = time.ok_or_else(refuse).or_raise();
        let inputs = dense(x, from_input, bias.map(|it| it.0));
        Self { inputs, time, batch: x.dim(1), weight, bias: bias.map(|it| it.1) }
    }

    /// Returns the last states, and the first state after every step.
    #[track_caller]
    fn run(&self, step: &dyn Fn(&[Tensor], &Tensor) -> Vec<Tensor>, states: &[&Tensor]) -> (Vec<Tensor>, Tensor) {
        // A scan requires that the states of every step have the same types.
        let given = states.iter().chain([&self.weight]).chain(&self.bias).map(|it| it.dtype());
        let dtype = given.fold(self.inputs.dtype(), promote);
        let hidden = self.weight.dims().last().copied().unwrap_or(Dim::new(1));
        let state = |it: &&Tensor| cast(broadcast_to(*it, [self.batch, hidden]), dtype);
        let mut carries: Vec<Tensor> = states.map_vec(state);
        let (sequence, length, location) = (&self.inputs, self.time, Location::caller());
        let scan = Scan { step, carries: &carries, sequence, length, location };
        if let Some(done) = dispatcher(|it| it.scan(&scan)) {
            return done;
        }
        let mut all = Vec::with_capacity(length);
        for at in 0..length {
            carries = step(&carries, &sequence.at(at));
            all.push(carries[0].clone());
        }
        (carries, stack(&all, 0))
    }
}
