//! Recurrent layers: stacks of scans over time, in one or both directions.

mod cell;
mod stack;

pub use cell::{GRUCell, LSTMCell, Nonlinearity, RNNCell};

use crate::prelude::*;
use cell::{Gru, Lstm};
use stack::Stack;

macro_rules! options {
    ($name:ident) => {
        impl $name {
            /// Creates one layer in one direction, with biases, over `x` `[time, batch, inputs]`. All parameters are
            /// uniform in `±1/sqrt(hidden)`.
            ///
            /// # Panics
            /// Raises [`ms_core::Code::Argument`] for a hidden size of zero.
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize) -> Self {
                Self { stack: Stack::new(stringify!($name), inputs, hidden, Default::default()) }
            }

            /// Stacks several layers: each layer after the first takes the results of the previous one. Creates new
            /// parameters.
            ///
            /// # Panics
            /// Raises [`ms_core::Code::Argument`] for zero layers.
            #[track_caller]
            pub fn num_layers(self, num_layers: usize) -> Self {
                Self { stack: self.stack.num_layers(num_layers) }
            }

            /// Sets whether each layer also runs from the last step to the first. The results of both directions are
            /// concatenated. Creates new parameters.
            #[track_caller]
            pub fn bidirectional(self, bidirectional: bool) -> Self {
                Self { stack: self.stack.bidirectional(bidirectional) }
            }

            /// Sets whether there are biases. Creates new parameters.
            #[track_caller]
            pub fn bias(self, bias: bool) -> Self {
                Self { stack: self.stack.bias(bias) }
            }

            /// Sets whether inputs and results are `[batch, time, ..]`. States are always `[.., batch, hidden]`.
            pub fn batch_first(self, batch_first: bool) -> Self {
                Self { stack: self.stack.batch_first(batch_first) }
            }

            /// Sets the dropout probability of results between layers, in training.
            ///
            /// # Panics
            /// Raises [`ms_core::Code::Argument`] unless `dropout` is at least zero and less than one.
            #[track_caller]
            pub fn dropout(self, dropout: f64) -> Self {
                Self { stack: self.stack.dropout(dropout) }
            }
        }
    };
}

options!(RNN);
options!(LSTM);
options!(GRU);

/// A recurrent layer with `h' = activation(W_ih x + b_ih + W_hh h + b_hh)` (Elman 1990, "Finding Structure in Time").
///
/// A call takes `x`, the first state `[layers directions, batch, hidden]` (zeros if `None`), and the sequence lengths
/// `[batch]` (all steps if `None`). It returns the results of all steps `[time, batch, directions hidden]` and the last
/// state. A sequence ends after its length: later results are zero, the last state belongs to its last step, and the
/// reverse direction begins there.
///
/// ```
/// use ms::prelude::*;
/// let rnn = nn::RNN::new(3, 4).num_layers(2).bidirectional(true);
/// let (y, h) = rnn.call(&Tensor::ones([5, 2, 3]), None, Some(tensor![5, 3]));
/// assert_eq!((y.shape(), h.shape()), (&[5, 2, 8][..], &[4, 2, 4][..]));
/// assert_eq!(y.i((4, 1)).to_vec::<f32>(), [0.0; 8]);
/// ```
#[cell]
#[derive(Debug)]
pub struct RNN {
    stack: Stack<Nonlinearity>,
}

impl RNN {
    /// Sets the activation.
    pub fn nonlinearity(self, nonlinearity: Nonlinearity) -> Self {
        Self { stack: self.stack.with_step(nonlinearity) }
    }
}

#[cell]
impl RNN {
    fn construct(&self, x: &Tensor, state: Option<Tensor>, lengths: Option<Tensor>) -> (Tensor, Tensor) {
        let (y, mut states) = self.stack.run(x, state.map(|it| vec![it]), lengths);
        (y, states.swap_remove(0))
    }
}

/// Long short-term memory (Hochreiter and Schmidhuber 1997): `c' = f c + i g`, `h' = o tanh(c')`. The gates apply
/// sigmoids (`i`, `f`, `o`) and tanh (`g`) to `W_ih x + b_ih + W_hh h + b_hh`.
///
/// A call takes `x`, the first states `h` and `c`, and lengths, as [`RNN`] does. It returns the results of all steps
/// and the last states.
///
/// ```
/// use ms::prelude::*;
/// let lstm = nn::LSTM::new(3, 4).batch_first(true);
/// let (y, (h, c)) = lstm.call(&Tensor::ones([2, 5, 3]), None, None);
/// assert_eq!((y.shape(), h.shape(), c.shape()), (&[2, 5, 4][..], &[1, 2, 4][..], &[1, 2, 4][..]));
/// ```
#[cell]
#[derive(Debug)]
pub struct LSTM {
    stack: Stack<Lstm>,
}

#[cell]
impl LSTM {
    fn construct(
        &self,
        x: &Tensor,
        states: Option<(Tensor, Tensor)>,
        lengths: Option<Tensor>,
    ) -> (Tensor, (Tensor, Tensor)) {
        let (y, mut states) = self.stack.run(x, states.map(|(h, c)| vec![h, c]), lengths);
        let c = states.swap_remove(1);
        (y, (states.swap_remove(0), c))
    }
}

/// Gated recurrent units (Cho et al. 2014): `h' = (1 - z) n + z h`, where the gates `r` and `z` apply sigmoids, and
/// `n = tanh(W_in x + b_in + r (W_hn h + b_hn))`.
///
/// A call takes `x`, the first state, and lengths, as [`RNN`] does.
///
/// ```
/// use ms::prelude::*;
/// let (y, h) = nn::GRU::new(3, 4).call(&Tensor::ones([5, 2, 3]), None, None);
/// assert_eq!(y.i(4).to_vec::<f32>(), h.i(0).to_vec::<f32>());
/// ```
#[cell]
#[derive(Debug)]
pub struct GRU {
    stack: Stack<Gru>,
}

#[cell]
impl GRU {
    fn construct(&self, x: &Tensor, state: Option<Tensor>, lengths: Option<Tensor>) -> (Tensor, Tensor) {
        let (y, mut states) = self.stack.run(x, state.map(|it| vec![it]), lengths);
        (y, states.swap_remove(0))
    }
}
