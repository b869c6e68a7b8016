//! Dropout layers.

use crate::prelude::*;
use ms_core::error::{OrRaise, raise};
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::tensor::Dim;
use ms_core::trace::Training;
use ms_core::{Code, Error};

/// Dropout. Training zeroes each element with probability `p` and scales the others by `1 / (1 - p)`; evaluation is the
/// identity.
///
/// ```
/// use ms::prelude::*;
/// let dropout = nn::Dropout::new(0.5);
/// let x = Tensor::ones([1000]);
/// assert!(dropout.call(&x).to_vec::<f32>().iter().all(|it| [0.0, 2.0].contains(it)));
/// dropout.set_train(false);
/// assert_eq!(dropout.call(&x).to_vec::<f32>(), x.to_vec::<f32>());
/// ```
#[cell]
#[derive(Clone, Debug)]
pub struct Dropout {
    p: f64,
    training: Training,
}

impl Dropout {
    /// Creates a layer with the probability `p`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `p` is at least zero and less than one.
    #[track_caller]
    pub fn new(p: f64) -> Self {
        check_interval("Dropout", "p", p, &Interval::DECAY).or_raise();
        Self { p, training: Training::default() }
    }

    /// Returns whether a call drops anything.
    pub(super) fn is_active(&self) -> bool {
        self.training.get() && self.p > 0.0
    }
}

#[cell]
impl Dropout {
    fn construct(&self, x: &Tensor) -> Tensor {
        if self.is_active() { ops::dropout(x, self.p) } else { x.clone() }
    }
}

/// [`ChannelDropout`] over one spatial axis.
///
/// ```
/// use ms::prelude::*;
/// let y = nn::Dropout1d::new(0.5).call(&Tensor::ones([2, 3, 4]));
/// // A channel is zero everywhere, or scaled everywhere.
/// assert_eq!(y.min(-1).to_vec::<f32>(), y.max(-1).to_vec::<f32>());
/// ```
pub type Dropout1d = ChannelDropout<1>;
/// [`ChannelDropout`] over two spatial axes.
///
/// ```
/// use ms::prelude::*;
/// let y = nn::Dropout2d::new(0.5).call(&Tensor::ones([2, 3, 4, 4]));
/// // A channel is zero everywhere, or scaled everywhere.
/// assert_eq!(y.min([-1, -2]).to_vec::<f32>(), y.max([-1, -2]).to_vec::<f32>());
/// ```
pub type Dropout2d = ChannelDropout<2>;
/// [`ChannelDropout`] over three spatial axes.
///
/// ```
/// use ms::prelude::*;
/// let y = nn::Dropout3d::new(0.5).call(&Tensor::ones([2, 3, 4, 4, 4]));
/// // A channel is zero everywhere, or scaled everywhere.
/// assert_eq!(y.min([-1, -2, -3]).to_vec::<f32>(), y.max([-1, -2, -3]).to_vec::<f32>());
/// ```
pub type Dropout3d = ChannelDropout<3>;

/// Channel dropout (Tompson et al. 2015, "Efficient Object Localization Using Convolutional Networks"). Training zeroes
/// each channel of each example of `x` `[n, channels, spatial..]` with probability `p`, and scales the others by
/// `1 / (1 - p)`. Evaluation is the identity.
///
/// ```
/// use ms::prelude::*;
/// let y = nn::Dropout2d::new(0.5).call(&Tensor::ones([4, 8, 2, 3]));
/// let (low, high) = (y.min([2, 3]), y.max([2, 3]));
/// assert_eq!(low.to_vec::<f32>(), high.to_vec::<f32>());
/// ```
#[cell]
#[derive(Clone, Debug)]
pub struct ChannelDropout<const N: usize> {
    p: f64,
    training: Training,
}

impl<const N: usize> ChannelDropout<N> {
    /// Creates a layer with the probability `p`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `p` is at least zero and less than one.
    #[track_caller]
    pub fn new(p: f64) -> Self {
        check_interval(&format!("Dropout{N}d"), "p", p, &Interval::DECAY).or_raise();
        Self { p, training: Training::default() }
    }

    #[track_caller]
    fn drop_channels(&self, x: &Tensor) -> Tensor {
        let mut dims = x.dims();
        if dims.len() != N + 2 {
            let message = format!("{} does not have a batch, channels and {N} spatial axes", x.ty());
            raise(Error::new(Code::Shape, message).with_op(format!("Dropout{N}d")));
        }
        if !self.training.get() || self.p == 0.0 {
            return x.clone();
        }
        dims[2..].fill(Dim::new(1));
        x * ops::dropout(Tensor::ones_of(dims, x.dtype()), self.p)
    }
}

#[cell]
impl<const N: usize> ChannelDropout<N> {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.drop_channels(x)
    }
}
