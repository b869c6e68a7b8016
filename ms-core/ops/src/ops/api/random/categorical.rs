//! Categorical sampling: `categorical` from logits, `multinomial` from weights.

use super::generator::{Generator, default_generator};
use crate::ops::core::axis::refusal;
use crate::ops::primitive::class_weights::weights;
use crate::ops::{cast, cumsum, expand_dims, keepdims, select, sum, topk};
use crate::tensor::{AsTensor, DType, Dim, Dims, Tensor};
use ms_ir::error::{Code, called};

impl Generator {
    /// Samples classes from logits: class `i` of a row has the probability `softmax(row)[i]`.
    ///
    /// `logits` is `[.., classes]`, of any dtype, and the result is i64 `[.., samples]`. With `replacement`, draws are
    /// independent. Without it, the classes drawn for a row are distinct. A class with a logit of -inf is never drawn.
    ///
    /// # Panics
    /// Raises [`Code::Shape`] if `logits` has rank 0. Raises [`Code::Argument`] for a logit that is NaN or +inf, a row
    /// of only -inf, and, without replacement, fewer classes than `samples`. The values are checked when they are
    /// known: in a compiled function, when it runs.
    #[track_caller]
    pub fn categorical(&self, logits: impl AsTensor, samples: usize, replacement: bool) -> Tensor {
        self.classes("categorical", &logits.as_tensor(), samples, replacement, true)
    }

    /// Samples classes from weights: class `i` of a row has the probability `row[i] / sum(row)`.
    ///
    /// `weights` is `[.., classes]`, of any dtype, and the result is i64 `[.., samples]`. With `replacement`, draws are
    /// independent. Without it, the classes drawn for a row are distinct. A class with a weight of zero is never drawn.
    ///
    /// # Panics
    /// Raises [`Code::Shape`] if `weights` has rank 0. Raises [`Code::Argument`] for a weight that is negative or not
    /// finite, a row of zeros, and, without replacement, fewer weights above zero than `samples`. The values are
    /// checked when they are known: in a compiled function, when it runs.
    #[track_caller]
    pub fn multinomial(&self, weights: impl AsTensor, samples: usize, replacement: bool) -> Tensor {
        self.classes("multinomial", &weights.as_tensor(), samples, replacement, false)
    }

    #[track_caller]
    fn classes(&self, name: &'static str, x: &Tensor, samples: usize, replacement: bool, logits: bool) -> Tensor {
        let _called = called(name);
        propagate_poison!(x);
        let rows: Dims = match x.dims().split_last() {
            Some((_, rows)) => rows.iter().copied().collect(),
            None => or_poison!(Err(refusal(name, &[x], Code::Shape, "an axis of classes is needed"))),
        };
        let x = if x.dtype().is_float() { x } else { &cast(x, DType::F64) };
        let x = cast(weights(x, if replacement { 1 } else { samples.max(1) }, logits, name), DType::F64);
        if replacement {
            let weights = if logits { (&x - x.max(keepdims(-1))).exp() } else { &x / x.max(keepdims(-1)) };
            let uniform = self.uniform_of(joined(&rows, Dim::new(samples)), 0.0, 1.0, DType::F64);
            return by_sums(&weights, &uniform);
        }
        let logits = if logits { x } else { x.log() };
        let uniform = self.uniform_of(logits.dims(), 0.0, 1.0, DType::F64);
        by_keys(&logits, &uniform, samples)
    }
}

/// Samples with replacement by inverting the cumulative distribution (Devroye, Non-Uniform Random Variate Generation,
/// 1986, III.2).
///
/// `weights` is `[.., classes]` and `uniform` is `[.., samples]`, from 0 up to 1. Each sample is the number of
/// cumulative sums that are at most `uniform` times the total.
#[track_caller]
fn by_sums(weights: &Tensor, uniform: &Tensor) -> Tensor {
    let sums = cumsum(weights, -1);
    // A point is below the total and at least the sum before a class of weight zero, so such a class is never drawn.
    let points = uniform * sums.max(keepdims(-1));
    sum(expand_dims(sums, -2).le(expand_dims(points, -1)), -1)
}

/// Samples without replacement: the classes with the largest logits plus independent Gumbel noise, in descending order
/// (Kool, van Hoof, Welling, Stochastic Beams and Where to Find Them, 2019).
#[track_caller]
fn by_keys(logits: &Tensor, uniform: &Tensor, samples: usize) -> Tensor {
    let noise = -(-(-uniform).log1p()).log();
    // The noise of a uniform number of 0 is +inf.
    let keys = select(logits.eq(f64::NEG_INFINITY), f64::NEG_INFINITY, logits + noise);
    topk(keys, samples, -1, true).1
}

fn joined(rows: &Dims, last: Dim) -> Dims {
    rows.iter().copied().chain([last]).collect()
}

/// Samples classes from logits with the generator of this thread; see [`Generator::categorical`].
///
/// ```
/// use ms_core::{ops, tensor};
/// let certain = tensor![[0.0, f64::NEG_INFINITY], [f64::NEG_INFINITY, 2.0]];
/// assert_eq!(ops::random::categorical(certain, 3, true).to_vec::<i64>(), [0, 0, 0, 1, 1, 1]);
/// ```
#[track_caller]
pub fn categorical(logits: impl AsTensor, samples: usize, replacement: bool) -> Tensor {
    default_generator().categorical(logits, samples, replacement)
}

/// Samples classes from weights with the generator of this thread; see [`Generator::multinomial`].
///
/// ```
/// use ms_core::{ops, tensor};
/// let mut drawn = ops::random::multinomial(tensor![0.0, 2.0, 0.0, 1.0], 2, false).to_vec::<i64>();
/// drawn.sort();
/// assert_eq!(drawn, [1, 3]);
/// ```
#[track_caller]
pub fn multinomial(weights: impl AsTensor, samples: usize, replacement: bool) -> Tensor {
    default_generator().multinomial(weights, samples, replacement)
}
