//! Convolution layers.

use super::compute::{operand, result};
use super::init::uniform_parameter;
use super::windows::{PadMode, PaddingMode, Windows, both_sides, dilated_window_options, name_of, padded, sizes};
use crate::prelude::*;
use ms_core::error::{OrRaise, raise};
use ms_core::ops::PerAxis;
use ms_core::ops::rules::check_positive;
use ms_core::trace::ComputeDType;
use ms_core::{Code, Error};

/// A [`Conv`] over one spatial axis.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::Conv1d::new(2, 4, 3).call(&Tensor::ones([1, 2, 8])).shape(), [1, 4, 6]);
/// ```
pub type Conv1d = Conv<1>;
/// A [`Conv`] over two spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::Conv2d::new(2, 4, 3).call(&Tensor::ones([1, 2, 8, 8])).shape(), [1, 4, 6, 6]);
/// ```
pub type Conv2d = Conv<2>;
/// A [`Conv`] over three spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::Conv3d::new(2, 4, 3).call(&Tensor::ones([1, 2, 8, 8, 8])).shape(), [1, 4, 6, 6, 6]);
/// ```
pub type Conv3d = Conv<3>;
/// A [`ConvTranspose`] over one spatial axis.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::Conv1dTranspose::new(2, 4, 3).call(&Tensor::ones([1, 2, 6])).shape(), [1, 4, 8]);
/// ```
pub type Conv1dTranspose = ConvTranspose<1>;
/// A [`ConvTranspose`] over two spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::Conv2dTranspose::new(2, 4, 3).call(&Tensor::ones([1, 2, 6, 6])).shape(), [1, 4, 8, 8]);
/// ```
pub type Conv2dTranspose = ConvTranspose<2>;
/// A [`ConvTranspose`] over three spatial axes.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::Conv3dTranspose::new(2, 4, 3).call(&Tensor::ones([1, 2, 6, 6, 6])).shape(), [1, 4, 8, 8, 8]);
/// ```
pub type Conv3dTranspose = ConvTranspose<3>;

/// Cross-correlation of `x` `[n, in, spatial..]` with `weight` `[out, in / groups, kernel..]`, plus a
/// bias, over `N` spatial axes: [`Conv1d`], [`Conv2d`], [`Conv3d`].
///
/// ```
/// use ms::prelude::*;
/// let x = Tensor::ones([1, 4, 9, 9]);
/// let same = nn::Conv2d::new(4, 8, 3).stride(2).pad_mode(nn::PadMode::Same);
/// assert_eq!(same.call(&x).shape(), [1, 8, 5, 5]);
/// let depthwise = nn::Conv2d::new(4, 8, [3, 5]).groups(4).padding([1, 2]).padding_mode(nn::PaddingMode::Reflect);
/// assert_eq!(depthwise.call(&x).shape(), [1, 8, 9, 9]);
/// ```
#[cell]
#[derive(Debug)]
pub struct Conv<const N: usize> {
    /// The weight, `[out, in / groups, kernel..]`.
    pub weight: Parameter,
    /// The bias, `[out]`, or `None`.
    pub bias: Option<Parameter>,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
    inputs: usize,
    outputs: usize,
    groups: usize,
    windows: Windows<N>,
    padding_mode: PaddingMode,
}

/// The transposed convolution of `x` `[n, in, spatial..]` with `weight` `[in, out / groups, kernel..]`, plus a bias. It
/// is the gradient of a [`Conv`] with respect to its input. Along each axis the result has
/// `(size - 1) stride - padding + dilation (kernel - 1) + 1 + output_padding` elements, or `size stride` with
/// [`PadMode::Same`].
///
/// ```
/// use ms::prelude::*;
/// let up = nn::Conv2dTranspose::new(4, 2, 3).stride(2).padding(1).output_padding(1);
/// assert_eq!(up.call(&Tensor::ones([1, 4, 5, 5])).shape(), [1, 2, 10, 10]);
/// ```
#[cell]
#[derive(Debug)]
pub struct ConvTranspose<const N: usize> {
    /// The weight, `[in, out / groups, kernel..]`.
    pub weight: Parameter,
    /// The bias, `[out]`, or `None`.
    pub bias: Option<Parameter>,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
    inputs: usize,
    outputs: usize,
    groups: usize,
    windows: Windows<N>,
    output_padding: [usize; N],
}

/// Generates the constructor and the options of a layer of `kind`, with these leading axes of the weight.
macro_rules! options {
    (
        $layer:ident, $kind:literal,
        |$inputs:ident, $outputs:ident, $groups:ident| $channels:expr,
        $rest:ident: $value:expr
    ) => {
        impl<const N: usize> $layer<N> {
            const KIND: &'static str = $kind;

            /// Creates a layer with stride 1, dilation 1, no padding, and a bias. Weight and bias are uniform in
            /// `±1/sqrt(n)`, where `n` is the product of all axes of the weight but the first.
            ///
            /// # Panics
            /// Raises [`Code::Argument`] for a kernel size of zero, or for a number of sizes other than the number of
            /// axes.
            #[track_caller]
            pub fn new(inputs: usize, outputs: usize, kernel: impl PerAxis) -> Self {
                let kernel = sizes(Self::KIND, "kernel", kernel);
                let (weight, bias) = Self::parameters(inputs, outputs, 1, kernel);
                let windows = Windows::new(kernel);
                Self {
                    weight,
                    bias: Some(bias),
                    compute: ComputeDType::default(),
                    inputs,
                    outputs,
                    groups: 1,
                    windows,
                    $rest: $value,
                }
            }

            fn shape_of_weight($inputs: usize, $outputs: usize, $groups: usize, kernel: [usize; N]) -> Vec<usize> {
                let channels: [usize; 2] = $channels;
                channels.into_iter().chain(kernel).collect()
            }

            /// Creates a weight and a bias.
            #[track_caller]
            fn parameters(inputs: usize, outputs: usize, groups: usize, kernel: [usize; N]) -> (Parameter, Parameter) {
                let shape = Self::shape_of_weight(inputs, outputs, groups, kernel);
                let fan_in = shape[1..].iter().product();
                (uniform_parameter(&shape, fan_in), uniform_parameter(&[outputs], fan_in))
            }

            /// Sets the number of groups: each group of channels has its own kernels. Creates new parameters.
            ///
            /// # Panics
            /// Raises [`Code::Argument`] unless `groups` divides both numbers of channels.
            #[track_caller]
            pub fn groups(self, groups: usize) -> Self {
                let (name, channels) = (name_of::<N>(Self::KIND), [self.inputs, self.outputs]);
                check_positive(&name, "groups", groups).or_raise();
                if channels.iter().any(|it| !it.is_multiple_of(groups)) {
                    let message = format!("`groups` is {groups}, but has to divide {channels:?} channels");
                    raise(Error::new(Code::Argument, message).with_op(name));
                }
                let (weight, bias) = Self::parameters(self.inputs, self.outputs, groups, self.windows.kernel);
                Self { weight, bias: self.bias.is_some().then_some(bias), groups, ..self }
            }

            /// Removes the bias.
            pub fn without_bias(self) -> Self {
                Self { bias: None, ..self }
            }

            /// Sets the initial weight, a function of its shape; see [`init`](crate::nn::init). Call this after options
            /// that create new parameters.
            #[track_caller]
            pub fn weight_init(self, init: impl FnOnce(&[usize]) -> Tensor) -> Self {
                let shape = Self::shape_of_weight(self.inputs, self.outputs, self.groups, self.windows.kernel);
                Self { weight: super::init::parameter(&shape, || init(&shape)), ..self }
            }
        }
    };
}

options!(Conv, "Conv{}d", |inputs, outputs, groups| [outputs, inputs / groups], padding_mode: PaddingMode::Zeros);
options!(ConvTranspose, "Conv{}dTranspose", |inputs, outputs, groups| [inputs, outputs / groups], output_padding: [0; N]);
dilated_window_options!(Conv);
dilated_window_options!(ConvTranspose);

impl<const N: usize> Conv<N> {
    /// Sets the values that fill the padding.
    pub fn padding_mode(self, padding_mode: PaddingMode) -> Self {
        Self { padding_mode, ..self }
    }

    #[track_caller]
    fn convolve(&self, x: &Tensor) -> Tensor {
        let pads = self.windows.pads(Self::KIND, x);
        let (both, rest, mode) = match self.padding_mode {
            PaddingMode::Zeros => {
                let (both, rest) = both_sides(pads);
                (both, rest, ops::PadMode::Constant(0.into()))
            }
            PaddingMode::Reflect => ([0; N], pads, ops::PadMode::Reflect),
            PaddingMode::Replicate => ([0; N], pads, ops::PadMode::Edge),
            PaddingMode::Circular => ([0; N], pads, ops::PadMode::Wrap),
        };
        let options = ops::ConvOptions::new(N).stride(self.windows.stride).dilation(self.windows.dilation);
        let bias = self.bias.as_ref().map(|it| operand(&self.compute, &it.value()));
        let (own, weight) = (operand(&self.compute, x), operand(&self.compute, &self.weight.value()));
        let options = options.padding(both).groups(self.groups);
        result(&self.compute, ops::conv(padded(&own, rest, mode), weight, bias.as_ref(), &options), x)
    }
}

#[cell]
impl<const N: usize> Conv<N> {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.convolve(x)
    }
}

impl<const N: usize> ConvTranspose<N> {
    /// Sets the number of extra elements at the end of each axis: one number, or one for each axis. It is below the
    /// stride or the dilation.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for a wrong number of axes.
    #[track_caller]
    pub fn output_padding(self, output_padding: impl PerAxis) -> Self {
        let list = output_padding.per_axis(N);
        let Ok(output_padding) = <[usize; N]>::try_from(&list[..]) else {
            let message = format!("`output_padding` has {} numbers for {N} axes", list.len());
            raise(Error::new(Code::Argument, message).with_op(name_of::<N>(Self::KIND)));
        };
        Self { output_padding, ..self }
    }

    #[track_caller]
    fn convolve(&self, x: &Tensor) -> Tensor {
        let Windows { kernel, stride, dilation, pad_mode, padding } = self.windows;
        let reach: [usize; N] =
            std::array::from_fn(|axis| dilation[axis].saturating_mul(kernel[axis] - 1).saturating_add(1));
        let (pads, extra) = match pad_mode {
            PadMode::Valid => ([(0, 0); N], self.output_padding),
            PadMode::Pad => (padding, self.output_padding),
            PadMode::Same => {
                let all = |axis: usize| reach[axis].saturating_sub(stride[axis]);
                let extra = std::array::from_fn(|axis| stride[axis].saturating_sub(reach[axis]));
                (std::array::from_fn(|axis| (all(axis) / 2, all(axis) - all(axis) / 2)), extra)
            }
        };
        let (both, rest) = both_sides(pads);
        let options = ops::ConvOptions::new(N).stride(stride).dilation(dilation).padding(both).groups(self.groups);
        let bias = self.bias.as_ref().map(|it| operand(&self.compute, &it.value()));
        let (own, weight) = (operand(&self.compute, x), operand(&self.compute, &self.weight.value()));
        let out = result(&self.compute, ops::conv_transpose(own, weight, bias.as_ref(), &options, extra), x);
        // The op pads symmetrically, so one-sided padding is cropped from the result.
        rest.iter().enumerate().filter(|it| *it.1 != (0, 0)).fold(out, |out, (axis, &(before, behind))| {
            let left = out.dim(axis as isize + 2) - (before + behind);
            ops::wrapping::gather(&out, ops::arange(left) + before as i64, axis as isize + 2)
        })
    }
}

#[cell]
impl<const N: usize> ConvTranspose<N> {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.convolve(x)
    }
}
