//! Gradient clipping.

use super::Optimizer;
use super::hyperparameter::{Hyperparameter, LearningRate};
use super::optimizer::differentiate_inside;
use ms_core::ops::rules::Interval;
use ms_core::session::Gradients;
use ms_core::{DType, Parameter, Tensor, ops};
use ms_macros::{Static, cell};

/// The quantity that gradient clipping limits.
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let step = |opt: &dyn Fn(&Gradients)| {
///     let weights = [tensor![0.0, 0.0], tensor![0.0]].map(|it| Parameter::new(it, "w"));
///     opt(&Gradients::new(weights.to_vec(), vec![tensor![3.0, 4.0], tensor![12.0]]));
///     weights.map(|it| -it.value().at(0).item::<f32>())
/// };
/// assert_eq!(step(&|it| SGD::new(1.0).clip_by_value(2.0).update(it)), [2.0, 2.0]);
/// let by_norm = step(&|it| SGD::new(1.0).clip_by_norm(2.5).update(it));
/// assert!((by_norm[0] - 1.5).abs() < 1e-5 && (by_norm[1] - 2.5).abs() < 1e-5);
/// // The norm of all three numbers is 13.
/// let by_global_norm = step(&|it| SGD::new(1.0).clip_by_global_norm(6.5).update(it));
/// assert!((by_global_norm[0] - 1.5).abs() < 1e-5 && (by_global_norm[1] - 6.0).abs() < 1e-5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Static)]
pub enum Clip {
    /// Every element: `max(-limit, min(g, limit))`.
    Value,
    /// The norm of each gradient: `g min(1, limit / norm(g))`.
    Norm,
    /// The norm of all gradients together, with PyTorch's formula: `g min(1, limit / (norm + 1e-6))`, where
    /// `norm = sqrt(Σ norm(g)²)`.
    GlobalNorm,
}

/// An optimiser that clips gradients; the result of [`Optimizer::clip_by_value`], [`Optimizer::clip_by_norm`] and
/// [`Optimizer::clip_by_global_norm`].
///
/// ```
/// use ms::prelude::*;
/// use ms::Gradients;
/// let weight = Parameter::new(tensor![0.0, 0.0], "w");
/// let opt = SGD::new(1.0).clip_by_norm(1.0);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![3.0, -4.0]]));
/// assert!((weight.value() - tensor![-0.6, 0.8]).abs().max(()).item::<f32>() < 1e-6);
/// opt.limit.set(0.5);
/// ```
#[cell]
pub struct Clipped<O> {
    /// The wrapped optimiser, which receives the clipped gradients.
    pub optimizer: O,
    /// The limit.
    pub limit: Hyperparameter,
    clip: Clip,
}

impl<O: Optimizer> Clipped<O> {
    #[track_caller]
    pub(super) fn new(optimizer: O, clip: Clip, limit: f64) -> Self {
        Self { optimizer, limit: Hyperparameter::new("clip", "limit", limit, &Interval::POSITIVE), clip }
    }
}

/// Sums squares in f64: squares of f16 and of large f32 gradients overflow their own dtype.
fn square_sum(gradient: &Tensor) -> Tensor {
    let wide = if gradient.dtype().is_narrow_float() { gradient.cast(DType::F32) } else { gradient.clone() };
    ops::sum(wide.square(), ()).cast(DType::F64)
}

impl<O: Optimizer> Optimizer for Clipped<O> {
    fn prepare(&self, parameters: &[Parameter]) {
        self.optimizer.prepare(parameters);
    }

    differentiate_inside!();

    fn update(&self, gradients: &Gradients) {
        let limit = self.limit.value();
        let share = |norm: Tensor| ops::minimum(&limit / norm, 1.0);
        let global = (self.clip == Clip::GlobalNorm).then(|| {
            let squares = gradients.iter().map(|(_, it)| square_sum(it));
            let sum = squares.reduce(|sum, it| sum + it).unwrap_or_else(|| Tensor::from(0.0f64));
            share(sum.sqrt() + 1e-6)
        });
        let clipped = gradients.iter().map(|(_, it)| {
            let of = |scalar: &Tensor| scalar.cast(it.dtype());
            match (self.clip, &global) {
                (Clip::Value, _) => ops::maximum(ops::minimum(it, of(&limit)), of(&-&limit)),
                (Clip::Norm, _) => it * of(&share(square_sum(it).sqrt())),
                (Clip::GlobalNorm, share) => it * of(share.as_ref().expect("computed above")),
            }
        });
        self.optimizer.update(&Gradients::new(gradients.parameters().to_vec(), clipped.collect()));
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        self.optimizer.learning_rates()
    }
}
