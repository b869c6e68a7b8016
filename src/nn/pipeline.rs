//! Runs a network over micro-batches.

use crate::prelude::*;
use ms_core::error::OrRaise;

/// Calls a network on micro-batches, one after the other, and returns the mean of the results. For a network that
/// returns a mean loss, this is the loss of the whole batch. Compiled code has one graph for the network, which every
/// micro-batch calls, forward and backward.
///
/// ```
/// use ms::prelude::*;
/// # #[cell] struct Loss { net: nn::Dense }
/// # #[cell] impl Loss { fn construct(&self, x: &Tensor) -> Tensor { self.net(x).square().mean(()) } }
/// let net = nn::PipelineCell::new(Loss { net: nn::Dense::new(3, 2) }, 4);
/// let loss = net.call(&Tensor::ones([8, 3]));
/// assert_eq!(loss.shape().len(), 0);
/// ```
#[cell]
#[derive(Debug)]
pub struct PipelineCell<N> {
    network: N,
    parts: usize,
}

#[cell]
impl<N> PipelineCell<N>
where
    N: Cell + for<'a> ms_core::trace::Apply<'a, Argument = &'a Tensor, Output = Tensor>,
{
    /// Splits each batch into `parts` micro-batches.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for zero.
    #[track_caller]
    pub fn new(network: N, parts: usize) -> Self {
        ms_core::ops::rules::check_positive("PipelineCell", "parts", parts).or_raise();
        Self { network, parts }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let mut dims = x.dims();
        let all = dims[0];
        if all.as_const().is_some_and(|it| it % self.parts != 0) {
            let message = format!("a batch of {all} has no {} equal parts", self.parts);
            let error = ms_core::Error::new(ms_core::Code::Shape, message).with_op("PipelineCell");
            ms_core::error::raise(error);
        }
        dims[0] = all / self.parts;
        dims.insert(0, self.parts.into());
        // A symbolic size that `parts` does not divide fails here at the call.
        let all = x.reshape(&*dims);
        let part = |i: usize| ms_core::trace::Apply::apply(&self.network, &all.at(i));
        let sum = (1..self.parts).fold(part(0), |sum, i| sum + part(i));
        sum / self.parts as f64
    }
}
