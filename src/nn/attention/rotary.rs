//! Rotary position embeddings.

use crate::prelude::*;
use ms_core::error::{OrRaise, raise};
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::{Code, Error};

/// Rotary position embedding (Su et al. 2021, "RoFormer"). Pair `i` of the first `dim` features of queries and keys is
/// rotated by the angle `position base^(-2 i / dim)`, so scores depend on relative positions. Further features are
/// unchanged.
///
/// A call takes `x` `[.., time, features]` and the positions, `[time]` or a shape that broadcasts to `[.., time]`.
///
/// ```
/// use ms::prelude::*;
/// let rotary = nn::RotaryEmbedding::new(2);
/// let x = tensor![[1.0, 0.0], [1.0, 0.0]];
/// let y = rotary.call(&x, &tensor![0, 1]).to_vec::<f32>();
/// assert!((y[0], y[1]) == (1.0, 0.0) && (y[2] - 1f32.cos()).abs() < 1e-6 && (y[3] - 1f32.sin()).abs() < 1e-6);
/// ```
#[cell]
#[derive(Clone, Debug)]
pub struct RotaryEmbedding {
    dim: usize,
    base: f64,
    interleaved: bool,
}

impl RotaryEmbedding {
    /// Creates an embedding of `dim` features with the base 10000, in which features `i` and `i + dim / 2` are a pair.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `dim` is even and positive.
    #[track_caller]
    pub fn new(dim: usize) -> Self {
        if dim == 0 || !dim.is_multiple_of(2) {
            let message = format!("`dim` is {dim}, but has to be even and above zero");
            raise(Error::new(Code::Argument, message).with_op("RotaryEmbedding"));
        }
        Self { dim, base: 10000.0, interleaved: false }
    }

    /// Sets the base of the angles.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `base` is positive and finite.
    #[track_caller]
    pub fn base(self, base: f64) -> Self {
        check_interval("RotaryEmbedding", "base", base, &Interval::POSITIVE).or_raise();
        Self { base, ..self }
    }

    /// Sets whether neighbouring features `2 i` and `2 i + 1` are a pair.
    pub fn interleaved(self, interleaved: bool) -> Self {
        Self { interleaved, ..self }
    }

    #[track_caller]
    fn rotate(&self, x: &Tensor, positions: &Tensor) -> Tensor {
        let features = x.dims().last().and_then(|it| it.as_const()).unwrap_or(0);
        if features < self.dim {
            let message = format!("{} has fewer than {} features", x.ty(), self.dim);
            raise(Error::new(Code::Shape, message).with_op("RotaryEmbedding"));
        }
        let half = self.dim / 2;
        // Angles need at least f32: f16 represents positions with only three decimal digits.
        let rates: Vec<f32> = (0..half).map(|i| self.base.powf(-((2 * i) as f64) / self.dim as f64) as f32).collect();
        let angles = positions.cast(DType::F32).expand_dims(-1) * Tensor::from_slice([half], &rates);
        let (cos, sin) = (ops::cos(&angles).cast(x.dtype()), ops::sin(&angles).cast(x.dtype()));
        let mut parts = ops::split_sizes(x, &[self.dim, features - self.dim], -1);
        let rest = parts.pop().expect("there are two parts");
        let own = &parts[0];
        let dims = own.dims();
        let [a, b] = if self.interleaved {
            let mut pairs = dims.clone();
            *pairs.last_mut().expect("there is an axis of features") = half.into();
            pairs.push(2.into());
            let pairs = own.reshape(&*pairs);
            [0, 1].map(|at| ops::index_select(&pairs, tensor![at], -1).squeeze(-1))
        } else {
            let halves = ops::split(own, 2, -1);
            [0, 1].map(|at| halves[at].clone())
        };
        let rotated = [&a * &cos - &b * &sin, &b * &cos + &a * &sin];
        let rotated = match self.interleaved {
            true => ops::stack(&rotated, -1).reshape(&*dims),
            false => ops::concat(&rotated, -1),
        };
        if features == self.dim { rotated } else { ops::concat(&[rotated, rest], -1) }
    }
}

#[cell]
impl RotaryEmbedding {
    fn construct(&self, x: &Tensor, positions: &Tensor) -> Tensor {
        self.rotate(x, positions)
    }
}
