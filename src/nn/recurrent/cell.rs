//! Recurrent cells: one time step.

use crate::nn::compute::{operand, result};
use crate::nn::init::uniform_parameter;
use crate::prelude::*;
use ms_core::trace::ComputeDType;

/// The parameters of one direction of a layer: `weight_ih` `[gates hidden, in]`, `weight_hh` `[gates hidden, hidden]`,
/// and biases `[gates hidden]`.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    pub weight_ih: Parameter,
    pub weight_hh: Parameter,
    pub biases: Option<[Parameter; 2]>,
    pub compute: ComputeDType,
}

impl Weights {
    /// Creates weights and biases, uniform in `±1/sqrt(hidden)`.
    #[track_caller]
    pub fn new(gates: usize, inputs: usize, hidden: usize, has_bias: bool, compute: &ComputeDType) -> Self {
        let make = |shape: &[usize]| uniform_parameter(shape, hidden);
        Self {
            weight_ih: make(&[gates * hidden, inputs]),
            weight_hh: make(&[gates * hidden, hidden]),
            biases: has_bias.then(|| [make(&[gates * hidden]), make(&[gates * hidden])]),
            compute: compute.clone(),
        }
    }

    /// Computes the contribution of inputs `[.., in]` to the gates.
    #[track_caller]
    pub fn project_input(&self, x: &Tensor) -> Tensor {
        self.product(x, &self.weight_ih, self.biases.as_ref().map(|it| &it[0]))
    }

    /// Computes the contribution of a state `[.., hidden]` to the gates.
    #[track_caller]
    fn project_state(&self, h: &Tensor) -> Tensor {
        self.product(h, &self.weight_hh, self.biases.as_ref().map(|it| &it[1]))
    }

    #[track_caller]
    fn product(&self, x: &Tensor, weight: &Parameter, bias: Option<&Parameter>) -> Tensor {
        let own = |it: &Tensor| operand(&self.compute, it);
        ops::dense(own(x), own(&weight.value()), bias.map(|it| own(&it.value())).as_ref())
    }
}

/// Computes the next states of a recurrent layer from the input's contribution to the gates and the current states. The
/// first state is the output of the step.
pub(super) trait Step: Clone {
    /// The number of gates; the weights have `hidden` rows for each.
    const GATES: usize;
    /// The number of states.
    const STATES: usize;

    /// Computes the next states.
    #[track_caller]
    fn step(&self, weights: &Weights, input: &Tensor, states: &[Tensor]) -> Vec<Tensor>;
}

/// The activation of [`RNN`](super::RNN).
///
/// ```
/// use ms::prelude::*;
/// let cell = nn::RNNCell::new(3, 4).nonlinearity(nn::Nonlinearity::ReLU);
/// let h = cell.call(&Tensor::ones([2, 3]), &Tensor::zeros([2, 4]));
/// assert!(h.min(()).item::<f32>() >= 0.0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Static)]
pub enum Nonlinearity {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
    /// `max(x, 0)`.
    ReLU,
}

impl Step for Nonlinearity {
    const GATES: usize = 1;
    const STATES: usize = 1;

    fn step(&self, weights: &Weights, input: &Tensor, states: &[Tensor]) -> Vec<Tensor> {
        let sum = input + weights.project_state(&states[0]);
        vec![match self {
            Self::Tanh => ops::tanh(sum),
            Self::ReLU => ops::relu(sum),
        }]
    }
}

/// The gates of [`LSTM`](super::LSTM), in the order input, forget, cell, output.
#[derive(Clone, Copy, Debug, Default, Static)]
pub struct Lstm;

impl Step for Lstm {
    const GATES: usize = 4;
    const STATES: usize = 2;

    fn step(&self, weights: &Weights, input: &Tensor, states: &[Tensor]) -> Vec<Tensor> {
        let gates = ops::split(input + weights.project_state(&states[0]), 4, -1);
        let (i, f, o) = (ops::sigmoid(&gates[0]), ops::sigmoid(&gates[1]), ops::sigmoid(&gates[3]));
        let c = f * &states[1] + i * ops::tanh(&gates[2]);
        vec![o * ops::tanh(&c), c]
    }
}

/// The gates of [`GRU`](super::GRU), in the order reset, update, new.
#[derive(Clone, Copy, Debug, Default, Static)]
pub struct Gru;

impl Step for Gru {
    const GATES: usize = 3;
    const STATES: usize = 1;

    fn step(&self, weights: &Weights, input: &Tensor, states: &[Tensor]) -> Vec<Tensor> {
        let (of_input, of_state) = (ops::split(input, 3, -1), ops::split(weights.project_state(&states[0]), 3, -1));
        let r = ops::sigmoid(&of_input[0] + &of_state[0]);
        let z = ops::sigmoid(&of_input[1] + &of_state[1]);
        let n = ops::tanh(&of_input[2] + r * &of_state[2]);
        vec![&n + z * (&states[0] - &n)]
    }
}

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident: $step:ty;)*) => {$(
        $(#[$doc])*
        #[cell]
        #[derive(Debug)]
        pub struct $name {
            /// The input weights, `[gates hidden, in]`.
            pub weight_ih: Parameter,
            /// The recurrent weights, `[gates hidden, hidden]`.
            pub weight_hh: Parameter,
            /// The input bias, `[gates hidden]`, or `None`.
            pub bias_ih: Option<Parameter>,
            /// The recurrent bias, `[gates hidden]`, or `None`.
            pub bias_hh: Option<Parameter>,
            /// The compute dtype. The result is cast back to the dtype of the operand.
            pub compute: ComputeDType,
            step: $step,
        }

        impl $name {
            /// Creates a cell with biases. All parameters are uniform in `±1/sqrt(hidden)`.
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize) -> Self {
                let compute = ComputeDType::default();
                let weights = Weights::new(<$step>::GATES, inputs, hidden, true, &compute);
                let Weights { weight_ih, weight_hh, biases, .. } = weights;
                let [bias_ih, bias_hh] = biases.expect("they are asked for").map(Some);
                Self { weight_ih, weight_hh, bias_ih, bias_hh, compute, step: Default::default() }
            }

            /// Removes the biases.
            pub fn without_bias(self) -> Self {
                Self { bias_ih: None, bias_hh: None, ..self }
            }

            #[track_caller]
            fn next(&self, x: &Tensor, states: &[Tensor]) -> Vec<Tensor> {
                let (weight_ih, weight_hh) = (self.weight_ih.clone(), self.weight_hh.clone());
                let biases = self.bias_ih.clone().zip(self.bias_hh.clone()).map(|(ih, hh)| [ih, hh]);
                let weights = Weights { weight_ih, weight_hh, biases, compute: self.compute.clone() };
                let own: Vec<Tensor> = states.iter().map(|it| operand(&self.compute, it)).collect();
                let next = self.step.step(&weights, &weights.project_input(x), &own);
                next.into_iter().zip(states).map(|(next, state)| result(&self.compute, next, state)).collect()
            }
        }
    )*};
}

cells! {
    /// One step of an [`RNN`](super::RNN): `activation(W_ih x + b_ih + W_hh h + b_hh)` for `x` `[batch, in]` and `h`
    /// `[batch, hidden]`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let cell = nn::RNNCell::new(3, 4);
    /// assert_eq!(cell.call(&Tensor::ones([2, 3]), &Tensor::zeros([2, 4])).shape(), [2, 4]);
    /// ```
    RNNCell: Nonlinearity;
    /// One step of an [`LSTM`](super::LSTM), from `x` `[batch, in]` and the states `h` and `c` `[batch, hidden]` to the
    /// next states.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let cell = nn::LSTMCell::new(3, 4);
    /// let zeros = Tensor::zeros([2, 4]);
    /// let (h, c) = cell.call(&Tensor::ones([2, 3]), &zeros, &zeros);
    /// assert_eq!((h.shape(), c.shape()), (&[2, 4][..], &[2, 4][..]));
    /// ```
    LSTMCell: Lstm;
    /// One step of a [`GRU`](super::GRU), from `x` `[batch, in]` and `h` `[batch, hidden]`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let cell = nn::GRUCell::new(3, 4);
    /// assert_eq!(cell.call(&Tensor::ones([2, 3]), &Tensor::zeros([2, 4])).shape(), [2, 4]);
    /// ```
    GRUCell: Gru;
}

impl RNNCell {
    /// Sets the activation.
    pub fn nonlinearity(self, nonlinearity: Nonlinearity) -> Self {
        Self { step: nonlinearity, ..self }
    }
}

#[cell]
impl RNNCell {
    fn construct(&self, x: &Tensor, h: &Tensor) -> Tensor {
        self.next(x, std::slice::from_ref(h)).swap_remove(0)
    }
}

#[cell]
impl GRUCell {
    fn construct(&self, x: &Tensor, h: &Tensor) -> Tensor {
        self.next(x, std::slice::from_ref(h)).swap_remove(0)
    }
}

#[cell]
impl LSTMCell {
    fn construct(&self, x: &Tensor, h: &Tensor, c: &Tensor) -> (Tensor, Tensor) {
        let mut next = self.next(x, &[h.clone(), c.clone()]).into_iter();
        let h = next.next().expect("there are two states");
        (h, next.next().expect("there are two states"))
    }
}
