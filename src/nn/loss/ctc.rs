//! Connectionist temporal classification (CTC).

use super::widen;
use crate::prelude::*;
use ms_core::error::raise;
use ms_core::ops::Reduction;
use ms_core::{Code, Error};

/// The log-probability of an impossible state; finite, so that gradients are finite too.
const IMPOSSIBLE: f64 = -1e30;

/// The CTC loss: the negative log-likelihood of labels, summed over all alignments with the time steps (Graves et al.
/// 2006, "Connectionist Temporal Classification"). In an alignment, each step emits the next label, repeats the last
/// one, or emits a blank.
///
/// A call takes log-probabilities `[time, n, classes]`, labels `[n, labels]`, the numbers of steps `[n]` and the
/// numbers of labels `[n]`. The mean reduction divides each loss by its number of labels first.
///
/// ```
/// use ms::prelude::*;
/// // Of two steps with even probabilities of two classes, three alignments of four give the label.
/// let even = ops::log_softmax(Tensor::zeros([2, 1, 2]), -1);
/// let loss = nn::CTCLoss::new().call(&even, &tensor![[1]], &tensor![2], &tensor![1]);
/// assert!((loss.item::<f32>() + 0.75f32.ln()).abs() < 1e-6);
/// ```
#[cell]
#[derive(Clone, Debug, Default)]
pub struct CTCLoss {
    reduction: Reduction,
    blank: usize,
    zero_infinity: bool,
}

impl CTCLoss {
    /// Creates the loss with the mean reduction and class 0 as the blank.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the reduction.
    pub fn reduction(self, reduction: Reduction) -> Self {
        Self { reduction, ..self }
    }

    /// Sets the blank class.
    pub fn blank(self, blank: usize) -> Self {
        Self { blank, ..self }
    }

    /// Sets whether infinite losses, of more labels than steps, become zero with a zero gradient.
    pub fn zero_infinity(self, zero_infinity: bool) -> Self {
        Self { zero_infinity, ..self }
    }

    /// Computes the loss of each sequence.
    #[track_caller]
    fn losses(&self, logs: &Tensor, labels: &Tensor, steps: &Tensor, counts: &Tensor) -> Tensor {
        if (logs.rank(), labels.rank(), steps.rank(), counts.rank()) != (3, 2, 1, 1) {
            let operands = [logs, labels, steps, counts].map(|it| it.ty().to_string());
            let message = "axes of time, sequences and classes, of sequences and labels, and of sequences are needed";
            raise(Error::new(Code::Shape, message).with_op("CTCLoss").with_operands(operands));
        }
        let (time, batch, count) = (logs.dim(0), logs.dim(1), labels.dim(1));
        let length = count * 2 + 1;
        // States alternate: a blank before, between and after the labels.
        let labels = labels.cast(DType::I64);
        let blank = ops::full_like(&labels, self.blank as i64);
        // Entries after the labels of a sequence are unspecified.
        let is_label = ops::less(ops::arange(count), counts.cast(DType::I64).expand_dims(-1));
        let labels = ops::select(is_label, labels, &blank);
        let pairs = ops::stack(&[blank, labels], -1).reshape((batch, count * 2));
        let last = ops::full_of((batch, 1), self.blank as i64, DType::I64);
        let states = ops::concat(&[pairs, last], 1);
        // A state is entered from its predecessor; a label also from the previous label, if that is a different one.
        let back = |x: &Tensor, by: usize, fill: ops::PadMode| {
            ops::wrapping::gather(ops::pad(x, &[(0, 0), (by, 0)], fill), ops::arange(length), 1)
        };
        let other = states.ne(back(&states, 2, ops::PadMode::Constant((-1).into())));
        let skips = ops::logical_and(states.ne(self.blank as i64), other);
        let emitted = ops::take_along_axis(logs, ops::broadcast_to(states.expand_dims(0), (time, batch, length)), 2);
        let impossible = ops::PadMode::Constant(IMPOSSIBLE.into());
        let first = ops::select(ops::arange(length).lt(2), emitted.at(0), IMPOSSIBLE);
        let inside = ops::less(ops::arange(time).expand_dims(-1), steps).expand_dims(-1);
        let later = |x: &Tensor| x.i(1..);
        let step = |alpha: &Tensor, (emitted, inside): &(Tensor, Tensor)| {
            let skipped = ops::select(&skips, back(alpha, 2, impossible), IMPOSSIBLE);
            let ways = ops::stack(&[alpha.clone(), back(alpha, 1, impossible), skipped], 0);
            let next = emitted + ops::logsumexp(ways, 0);
            (ops::select(inside, next, alpha), ())
        };
        let (alpha, ()) = ops::scan(step, first, &(later(&emitted), later(&inside)));
        // A path ends at the last label, or at the blank after it.
        let end = (counts.cast(DType::I64) * 2).expand_dims(-1);
        let at = |place: Tensor| ops::wrapping::take_along_axis(&alpha, place, 1).squeeze(-1);
        let label = ops::select(counts.gt(0), at(ops::clamp_min(&end - 1, 0)), IMPOSSIBLE);
        let losses = -ops::logaddexp(at(end), label);
        let instead = if self.zero_infinity { 0.0 } else { f64::INFINITY };
        ops::select(losses.ge(-0.5 * IMPOSSIBLE), ops::full_of((), instead, losses.dtype()), &losses)
    }

    #[track_caller]
    fn reduced(&self, losses: &Tensor, counts: &Tensor) -> Tensor {
        match self.reduction {
            Reduction::Mean => (losses / ops::clamp_min(counts, 1).cast(losses.dtype())).mean(()),
            other => other.apply(losses),
        }
    }
}

#[cell]
impl CTCLoss {
    fn construct(&self, logs: &Tensor, labels: &Tensor, steps: &Tensor, counts: &Tensor) -> Tensor {
        self.reduced(&self.losses(&widen(logs), labels, steps, counts), counts)
    }
}
