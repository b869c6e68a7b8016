//! Helpers of convolution and pooling layers: per-axis sizes and padding.

use crate::prelude::*;
use ms_core::error::{OrRaise, raise};
use ms_core::ops::PerAxis;
use ms_core::ops::rules::check_positive;
use ms_core::{Code, Error};

/// The amount of padding of a convolution or pooling layer.
///
/// ```
/// use ms::prelude::*;
/// let sizes = [nn::PadMode::Same, nn::PadMode::Valid].map(|mode| {
///     let layer = nn::Conv1d::new(1, 1, 3).stride(2).pad_mode(mode);
///     layer.call(&Tensor::ones([1, 1, 8])).shape()[2]
/// });
/// assert_eq!(sizes, [4, 3]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Static)]
pub enum PadMode {
    /// Padding for `ceil(size / stride)` output positions; the larger half comes after the last element.
    Same,
    /// No padding.
    #[default]
    Valid,
    /// The explicit `padding` option.
    Pad,
}

/// The values that fill the padding of a convolution layer.
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::Conv1d::new(1, 1, 3).without_bias().weight_init(|shape| Tensor::ones(shape)).padding(1);
/// let y = layer.padding_mode(nn::PaddingMode::Circular).call(&tensor![[[1.0, 2.0, 3.0]]]);
/// assert_eq!(y.to_vec::<f32>(), [6.0, 6.0, 6.0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Static)]
pub enum PaddingMode {
    /// Zero padding.
    #[default]
    Zeros,
    /// Reflection at the border, without repeating the border element.
    Reflect,
    /// Repetition of the border element.
    Replicate,
    /// Circular wrap-around: elements from the opposite end.
    Circular,
}

/// A padding before and after each of `N` axes: one number for all, one for each axis, or a pair for each axis.
///
/// ```
/// use ms::prelude::*;
/// use nn::IntoPadding;
/// let pairs: [[(usize, usize); 2]; 3] = [1.into_padding(), [1, 2].into_padding(), [(0, 1), (2, 3)].into_padding()];
/// assert_eq!(pairs, [[(1, 1), (1, 1)], [(1, 1), (2, 2)], [(0, 1), (2, 3)]]);
/// ```
pub trait IntoPadding<const N: usize> {
    /// Converts to a pair for each axis.
    fn into_padding(self) -> [(usize, usize); N];
}

impl<const N: usize> IntoPadding<N> for usize {
    fn into_padding(self) -> [(usize, usize); N] {
        [(self, self); N]
    }
}

impl<const N: usize> IntoPadding<N> for [usize; N] {
    fn into_padding(self) -> [(usize, usize); N] {
        self.map(|it| (it, it))
    }
}

impl<const N: usize> IntoPadding<N> for [(usize, usize); N] {
    fn into_padding(self) -> Self {
        self
    }
}

/// Returns the name of a layer over `N` axes: `Conv2d` for the kind `Conv{}d`.
pub(super) fn name_of<const N: usize>(kind: &str) -> String {
    kind.replace("{}", &N.to_string())
}

/// Returns one positive number for each axis.
#[track_caller]
pub(super) fn sizes<const N: usize>(kind: &str, option: &str, value: impl PerAxis) -> [usize; N] {
    let list = value.per_axis(N);
    let Ok(sizes) = <[usize; N]>::try_from(&list[..]) else {
        let message = format!("`{option}` has {} numbers for {N} axes", list.len());
        raise(Error::new(Code::Argument, message).with_op(name_of::<N>(kind)));
    };
    // A loop instead of a closure, since a closure would be the reported caller.
    for size in sizes {
        check_positive(&name_of::<N>(kind), option, size).or_raise();
    }
    sizes
}

/// The sliding windows of a layer along its `N` spatial axes.
#[derive(Clone, PartialEq, Eq, Debug, Static)]
pub(super) struct Windows<const N: usize> {
    pub kernel: [usize; N],
    pub stride: [usize; N],
    pub dilation: [usize; N],
    pub pad_mode: PadMode,
    pub padding: [(usize, usize); N],
}

impl<const N: usize> Windows<N> {
    pub fn new(kernel: [usize; N]) -> Self {
        Self { kernel, stride: [1; N], dilation: [1; N], pad_mode: PadMode::Valid, padding: [(0, 0); N] }
    }

    /// Computes the padding of each axis for an input `[n, c, spatial..]`.
    ///
    /// Raises [`Code::Sizes`] if the padding depends on a symbolic size.
    #[track_caller]
    pub fn pads(&self, kind: &str, x: &Tensor) -> [(usize, usize); N] {
        match self.pad_mode {
            PadMode::Valid => [(0, 0); N],
            PadMode::Pad => self.padding,
            PadMode::Same => std::array::from_fn(|axis| {
                let reach = self.dilation[axis].saturating_mul(self.kernel[axis] - 1);
                let stride = self.stride[axis];
                let all = match x.dims().get(axis + 2).map(|it| it.as_const()) {
                    _ if stride == 1 => reach,
                    Some(Some(size)) => {
                        let last = (size.div_ceil(stride).max(1) - 1) * stride;
                        reach.saturating_add(last + 1).saturating_sub(size)
                    }
                    Some(None) => {
                        let message = "with a stride, the padding of `Same` depends on a size, which is symbolic";
                        raise(Error::new(Code::Sizes, message).with_op(name_of::<N>(kind)));
                    }
                    // The op reports the wrong rank.
                    None => 0,
                };
                (all / 2, all - all / 2)
            }),
        }
    }
}

impl<const N: usize> Windows<N> {
    /// Raises an error if a window of a pooling layer covers padding only. The op cannot check this, since it sees
    /// one-sided padding as elements.
    ///
    /// # Panics
    /// Raises the errors of [`ops::Window::check_elements`], with the name of the layer.
    #[track_caller]
    pub fn check_elements(&self, kind: &str, x: &Tensor, pads: &[(usize, usize); N]) {
        let dims = x.dims();
        let Some(sizes) = dims.get(2..).filter(|it| it.len() == N && pads.iter().any(|it| it.0 != it.1)) else {
            return;
        };
        let window = ops::Window {
            stride: self.stride.into_iter().collect(),
            dilation: self.dilation.into_iter().collect(),
            before: pads.iter().map(|it| it.0).collect(),
            after: pads.iter().map(|it| it.1).collect(),
        };
        window.check_elements(sizes, &self.kernel).map_err(|it| it.with_op(name_of::<N>(kind))).or_raise();
    }
}

/// Pads `x` `[n, c, spatial..]` along its spatial axes.
#[track_caller]
pub(super) fn padded<const N: usize>(x: &Tensor, pads: [(usize, usize); N], mode: ops::PadMode) -> Tensor {
    if x.rank() != N + 2 {
        // The op reports the wrong rank.
        return x.clone();
    }
    let all: Vec<(usize, usize)> = [(0, 0); 2].into_iter().chain(pads).collect();
    ops::pad(x, &all, mode)
}

/// Splits padding into the symmetric part and the one-sided remainder.
pub(super) fn both_sides<const N: usize>(pads: [(usize, usize); N]) -> ([usize; N], [(usize, usize); N]) {
    let both = pads.map(|(before, behind)| before.min(behind));
    (both, std::array::from_fn(|axis| (pads[axis].0 - both[axis], pads[axis].1 - both[axis])))
}

/// Generates the options stride and padding for a layer `$layer<N>` with a field `windows` and a constant `KIND`.
macro_rules! window_options {
    ($layer:ident) => {
        impl<const N: usize> $layer<N> {
            /// Sets the stride: one number, or one for each axis.
            ///
            /// # Panics
            /// Raises [`ms_core::Code::Argument`] for a stride of zero.
            #[track_caller]
            pub fn stride(mut self, stride: impl ms_core::ops::PerAxis) -> Self {
                self.windows.stride = crate::nn::windows::sizes(Self::KIND, "stride", stride);
                self
            }

            /// Sets the padding before and after each axis: one number, one for each axis, or a pair for each axis.
            pub fn padding(mut self, padding: impl crate::nn::windows::IntoPadding<N>) -> Self {
                self.windows.padding = padding.into_padding();
                self.windows.pad_mode = crate::nn::PadMode::Pad;
                self
            }

            /// Sets the amount of padding.
            pub fn pad_mode(mut self, pad_mode: crate::nn::PadMode) -> Self {
                self.windows.pad_mode = pad_mode;
                self
            }
        }
    };
}

/// Generates the options of [`window_options`] and dilation.
macro_rules! dilated_window_options {
    ($layer:ident) => {
        crate::nn::windows::window_options!($layer);

        impl<const N: usize> $layer<N> {
            /// Sets the dilation, the distance between kernel taps: one number, or one for each axis.
            ///
            /// # Panics
            /// Raises [`ms_core::Code::Argument`] for a dilation of zero.
            #[track_caller]
            pub fn dilation(mut self, dilation: impl ms_core::ops::PerAxis) -> Self {
                self.windows.dilation = crate::nn::windows::sizes(Self::KIND, "dilation", dilation);
                self
            }
        }
    };
}

pub(super) use {dilated_window_options, window_options};
