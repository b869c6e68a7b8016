//! Pooling layers.

use super::windows::{PadMode, Windows, both_sides, dilated_window_options, padded, sizes, window_options};
use crate::prelude::*;
use ms_core::ops::PerAxis;

/// [`MaxPool`] over one spatial axis.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::MaxPool1d::new(2).call(&Tensor::ones([1, 2, 4])).shape(), [1, 2, 2]);
/// ```
pub type MaxPool1d = MaxPool<1>;
/// [`MaxPool`] over two spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::MaxPool2d::new(2).call(&Tensor::ones([1, 2, 4, 4])).shape(), [1, 2, 2, 2]);
/// ```
pub type MaxPool2d = MaxPool<2>;
/// [`MaxPool`] over three spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::MaxPool3d::new(2).call(&Tensor::ones([1, 2, 4, 4, 4])).shape(), [1, 2, 2, 2, 2]);
/// ```
pub type MaxPool3d = MaxPool<3>;
/// [`AvgPool`] over one spatial axis.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::AvgPool1d::new(2).call(&Tensor::ones([1, 2, 4])).shape(), [1, 2, 2]);
/// ```
pub type AvgPool1d = AvgPool<1>;
/// [`AvgPool`] over two spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::AvgPool2d::new(2).call(&Tensor::ones([1, 2, 4, 4])).shape(), [1, 2, 2, 2]);
/// ```
pub type AvgPool2d = AvgPool<2>;
/// [`AvgPool`] over three spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::AvgPool3d::new(2).call(&Tensor::ones([1, 2, 4, 4, 4])).shape(), [1, 2, 2, 2, 2]);
/// ```
pub type AvgPool3d = AvgPool<3>;
/// [`AdaptiveAvgPool`] over one spatial axis.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::AdaptiveAvgPool1d::new(2).call(&Tensor::ones([1, 2, 4])).shape(), [1, 2, 2]);
/// ```
pub type AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
/// [`AdaptiveAvgPool`] over two spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::AdaptiveAvgPool2d::new(2).call(&Tensor::ones([1, 2, 4, 4])).shape(), [1, 2, 2, 2]);
/// ```
pub type AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
/// [`AdaptiveAvgPool`] over three spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::AdaptiveAvgPool3d::new(2).call(&Tensor::ones([1, 2, 4, 4, 4])).shape(), [1, 2, 2, 2, 2]);
/// ```
pub type AdaptiveAvgPool3d = AdaptiveAvgPool<3>;
/// [`AdaptiveMaxPool`] over one spatial axis.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::AdaptiveMaxPool1d::new(2).call(&Tensor::ones([1, 2, 4])).shape(), [1, 2, 2]);
/// ```
pub type AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
/// [`AdaptiveMaxPool`] over two spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::AdaptiveMaxPool2d::new(2).call(&Tensor::ones([1, 2, 4, 4])).shape(), [1, 2, 2, 2]);
/// ```
pub type AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
/// [`AdaptiveMaxPool`] over three spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::AdaptiveMaxPool3d::new(2).call(&Tensor::ones([1, 2, 4, 4, 4])).shape(), [1, 2, 2, 2, 2]);
/// ```
pub type AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

/// Max pooling: the largest value of each window of `x` `[n, c, spatial..]` over `N` spatial axes ([`MaxPool1d`],
/// [`MaxPool2d`], [`MaxPool3d`]). Padding is smaller than every value, and at most half of a window.
///
/// ```
/// use ms::prelude::*;
/// let x = tensor![[[1.0, 3.0, 2.0]]];
/// assert_eq!(nn::MaxPool1d::new(2).stride(1).call(&x).to_vec::<f32>(), [3.0, 3.0]);
/// assert_eq!(nn::MaxPool1d::new(2).pad_mode(nn::PadMode::Same).call(&x).to_vec::<f32>(), [3.0, 2.0]);
/// ```
#[cell]
#[derive(Clone, Debug)]
pub struct MaxPool<const N: usize> {
    windows: Windows<N>,
    ceil_mode: bool,
}

/// Average pooling: the mean of each window of `x` `[n, c, spatial..]` over `N` spatial axes ([`AvgPool1d`],
/// [`AvgPool2d`], [`AvgPool3d`]). Padding is at most half of a window.
///
/// ```
/// use ms::prelude::*;
/// let x = tensor![[[1.0, 3.0, 2.0]]];
/// assert_eq!(nn::AvgPool1d::new(2).padding(1).call(&x).to_vec::<f32>(), [0.5, 2.5]);
/// let without = nn::AvgPool1d::new(2).padding(1).count_include_pad(false);
/// assert_eq!(without.call(&x).to_vec::<f32>(), [1.0, 2.5]);
/// ```
#[cell]
#[derive(Clone, Debug)]
pub struct AvgPool<const N: usize> {
    windows: Windows<N>,
    ceil_mode: bool,
    count_include_pad: bool,
}

macro_rules! options {
    ($layer:ident, $kind:literal, $($rest:ident: $value:expr),*) => {
        impl<const N: usize> $layer<N> {
            const KIND: &'static str = $kind;

            /// Creates a layer with a stride equal to the kernel: one size, or one for each axis.
            ///
            /// # Panics
            /// Raises [`ms_core::Code::Argument`] for a kernel size of zero, or for a number of sizes other than the
            /// number of axes.
            #[track_caller]
            pub fn new(kernel: impl PerAxis) -> Self {
                let kernel = sizes(Self::KIND, "kernel", kernel);
                Self { windows: Windows { stride: kernel, ..Windows::new(kernel) }, ceil_mode: false, $($rest: $value),* }
            }

            /// Sets whether the last window may extend beyond the input.
            pub fn ceil_mode(self, ceil_mode: bool) -> Self {
                Self { ceil_mode, ..self }
            }

            fn options(&self, padding: [usize; N]) -> ops::PoolOptions {
                let Windows { kernel, stride, dilation, .. } = self.windows;
                let options = ops::PoolOptions::new(N, kernel).stride(stride).dilation(dilation);
                options.padding(padding).ceil_mode(self.ceil_mode)
            }
        }
    };
}

options!(MaxPool, "MaxPool{}d",);
options!(AvgPool, "AvgPool{}d", count_include_pad: true);
dilated_window_options!(MaxPool);
window_options!(AvgPool);

impl<const N: usize> MaxPool<N> {
    #[track_caller]
    fn pool(&self, x: &Tensor) -> Tensor {
        let pads = self.windows.pads(Self::KIND, x);
        self.windows.check_elements(Self::KIND, x, &pads);
        let (both, rest) = both_sides(pads);
        let lowest = ops::PadMode::Constant(f64::NEG_INFINITY.into());
        ops::max_pool(padded(x, rest, lowest), &self.options(both))
    }
}

#[cell]
impl<const N: usize> MaxPool<N> {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.pool(x)
    }
}

impl<const N: usize> AvgPool<N> {
    /// Sets whether padding counts as elements of the mean. It does by default, except with [`PadMode::Same`].
    pub fn count_include_pad(self, count_include_pad: bool) -> Self {
        Self { count_include_pad, ..self }
    }

    #[track_caller]
    fn pool(&self, x: &Tensor) -> Tensor {
        let pads = self.windows.pads(Self::KIND, x);
        self.windows.check_elements(Self::KIND, x, &pads);
        let (both, rest) = both_sides(pads);
        let counted = self.count_include_pad && self.windows.pad_mode != PadMode::Same;
        let options = self.options(both).count_include_pad(counted);
        let mean = |x: &Tensor| ops::avg_pool(padded(x, rest, ops::PadMode::Constant(0.into())), &options);
        if counted || rest.iter().all(|it| *it == (0, 0)) {
            return mean(x);
        }
        // The op counts one-sided padding as elements. The mean of ones is the fraction of real elements.
        mean(x) / mean(&ops::ones_like(x))
    }
}

#[cell]
impl<const N: usize> AvgPool<N> {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.pool(x)
    }
}

macro_rules! adaptive {
    ($($(#[$doc:meta])* $layer:ident, $kind:literal => $op:ident;)*) => {$(
        $(#[$doc])*
        #[cell]
        #[derive(Clone, Debug)]
        pub struct $layer<const N: usize> {
            output_size: [usize; N],
        }

        impl<const N: usize> $layer<N> {
            /// Creates a layer with this output size: one number, or one for each axis.
            ///
            /// # Panics
            /// Raises [`ms_core::Code::Argument`] for a size of zero, or for a number of sizes other than the number of
            /// axes.
            #[track_caller]
            pub fn new(output_size: impl PerAxis) -> Self {
                Self { output_size: sizes($kind, "output_size", output_size) }
            }
        }

        #[cell]
        impl<const N: usize> $layer<N> {
            fn construct(&self, x: &Tensor) -> Tensor {
                ops::$op(x, &self.output_size)
            }
        }
    )*};
}

adaptive! {
    /// Adaptive average pooling ([`ops::adaptive_avg_pool`]): the means of `output_size` windows along each of `N`
    /// spatial axes, which cover `x` `[n, c, spatial..]` evenly.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let x = tensor![[[1.0, 3.0, 5.0]]];
    /// assert_eq!(nn::AdaptiveAvgPool1d::new(2).call(&x).to_vec::<f32>(), [2.0, 4.0]);
    /// ```
    AdaptiveAvgPool, "AdaptiveAvgPool{}d" => adaptive_avg_pool;
    /// Adaptive max pooling ([`ops::adaptive_max_pool`]): the largest values of `output_size` windows along each of `N`
    /// spatial axes, which cover `x` `[n, c, spatial..]` evenly.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let x = tensor![[[1.0, 3.0, 5.0]]];
    /// assert_eq!(nn::AdaptiveMaxPool1d::new(2).call(&x).to_vec::<f32>(), [3.0, 5.0]);
    /// ```
    AdaptiveMaxPool, "AdaptiveMaxPool{}d" => adaptive_max_pool;
}
