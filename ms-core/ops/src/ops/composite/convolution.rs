//! Convolutions with options and biases, and transposed convolutions.

use crate::ops::core::axis::{named, refusal};
use crate::ops::core::rules::{check_dims, check_not_zero};
use crate::ops::core::wide::Inner;
use crate::ops::primitive::window::attributes::conv_attrs;
use crate::ops::primitive::window::{PerAxis, Window};
use crate::ops::{
    Batching, CONV, CONV_INPUT_GRAD, Derivative, PadMode, Sample, SampleInput, Vjp, add, cast, pad, reshape, sum_axes,
    transform_rules,
};
use crate::tensor::{AsTensor, Dim, Dims, Scalar, Shape, Tensor, apply1, first_poisoned};
use ms_ir::error::{Code, Error, Result, called};
use smallvec::smallvec;

/// Options of a convolution: strides, padding on both sides, dilation, groups.
///
/// ```
/// use ms_core::{ops, tensor};
/// let options = ops::ConvOptions::new(1).stride(2).padding(1);
/// let y = ops::conv1d(tensor![[[1.0, 2.0, 3.0]]], tensor![[[1.0, 1.0, 1.0]]], None, &options);
/// assert_eq!(y.to_vec::<f32>(), [3.0, 5.0]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvOptions {
    /// The stride, by spatial axis.
    pub stride: Shape,
    /// Zero padding on both sides, by spatial axis.
    pub padding: Shape,
    /// The dilation, by spatial axis.
    pub dilation: Shape,
    /// The number of independent groups of channels.
    pub groups: usize,
}

impl ConvOptions {
    /// Creates options for `rank` spatial axes: stride and dilation 1, no padding, one group.
    pub fn new(rank: usize) -> Self {
        Self { stride: 1.per_axis(rank), padding: 0.per_axis(rank), dilation: 1.per_axis(rank), groups: 1 }
    }

    /// Sets the stride: one number, or one for each spatial axis.
    pub fn stride(mut self, stride: impl PerAxis) -> Self {
        self.stride = stride.per_axis(self.stride.len());
        self
    }

    /// Sets the padding on both sides: one number, or one for each spatial axis.
    pub fn padding(mut self, padding: impl PerAxis) -> Self {
        self.padding = padding.per_axis(self.padding.len());
        self
    }

    /// Sets the dilation: one number, or one for each spatial axis.
    pub fn dilation(mut self, dilation: impl PerAxis) -> Self {
        self.dilation = dilation.per_axis(self.dilation.len());
        self
    }

    /// Sets the number of groups of channels.
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    fn window(&self) -> Window {
        Window {
            stride: self.stride.clone(),
            dilation: self.dilation.clone(),
            before: self.padding.clone(),
            after: self.padding.clone(),
        }
    }
}

composite! {
    /// Applies [`CONV`] and adds a bias for each channel of the result, the third operand.
    CONV_BIAS = 880: "conv_bias", CONV.info.attrs;
    body |attrs, inputs| {
        let out = apply1(CONV.op(), attrs, &inputs[..2]);
        let bias = over_channels(inputs[2], out.rank());
        smallvec![add(out, bias)]
    };
    derivative Derivative::Rule(|it| {
        let g = it.cotangent();
        let axes: Vec<usize> = (0..g.rank()).filter(|&axis| axis != 1).collect();
        let product = Vjp { inputs: &it.inputs[..2], needs: &it.needs[..2], ..*it };
        let mut all = transform_rules(&CONV).pull(&product).expect("a convolution has a rule");
        all.push(it.needs[2].then(|| cast(sum_axes(g, &axes, false), it.inputs[2].dtype())));
        all
    }), finite: true;
    // The convolution accumulates in f32.
    inner Inner::OperandDtype;
    batching Batching::Partial(|it| it.only_first().then(|| it.merged_to(1)));
    samples || {
        let of = |mut sample: Sample| {
            let (dtype, channels) = (sample.inputs[0].dtype, sample.inputs[1].shape[0]);
            sample.inputs.push(SampleInput::of(dtype, &[channels], -1.0, 1.0));
            sample
        };
        (CONV.samples)().into_iter().map(of).collect()
    };
}

/// Returns the cross-correlation of `x` `[n, c, spatial..]` with `weight` `[o, c / groups, kernel..]`, plus `bias`
/// `[o]`, over one to three spatial axes.
///
/// # Panics
/// Raises [`Code::Shape`] for incompatible shapes, [`Code::DType`] unless the operands have one float dtype, and
/// [`Code::Argument`] for a stride of zero.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (x, weight) = (tensor![[[1., 2., 3.]]], tensor![[[1., 10.]]]);
/// let y = ops::conv(&x, &weight, Some(&tensor![0.5]), &ops::ConvOptions::new(1).stride(2));
/// assert_eq!(y.to_vec::<f32>(), [21.5]);
/// ```
#[track_caller]
pub fn conv(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
    let _called = called("conv");
    let (x, weight) = (x.as_tensor(), weight.as_tensor());
    let attrs = conv_attrs(&options.window(), options.groups, &[]);
    let Some(bias) = bias else { return apply1(CONV.op(), &attrs, &[&x, &weight]) };
    propagate_poison!(&x, &weight, bias);
    if let Some(&channels) = weight.dims().first() {
        or_poison!(check_dims("conv", "bias", bias, &[channels]));
    }
    apply1(CONV_BIAS.op(), &attrs, &[&x, &weight, bias])
}

/// Applies [`conv`] over one spatial axis: `[n, c, length]`.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (x, weight) = (tensor![[[1., 2., 3.]]], tensor![[[1., 10.]]]);
/// let y = ops::conv1d(&x, &weight, None, &ops::ConvOptions::new(1));
/// assert_eq!(y.to_vec::<f32>(), [21., 32.]);
/// ```
#[track_caller]
pub fn conv1d(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
    let _called = called("conv1d");
    or_poison!(ranked("conv1d", &x.as_tensor(), 1));
    conv(x, weight, bias, options)
}

/// Applies [`conv`] over two spatial axes: `[n, c, height, width]`.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]]]];
/// let y = ops::conv2d(&x, tensor![[[[1., 0.], [0., 1.]]]], None, &ops::ConvOptions::new(2));
/// assert_eq!(y.to_vec::<f32>(), [6., 8., 12., 14.]);
/// ```
#[track_caller]
pub fn conv2d(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
    let _called = called("conv2d");
    or_poison!(ranked("conv2d", &x.as_tensor(), 2));
    conv(x, weight, bias, options)
}

/// Applies [`conv`] over three spatial axes: `[n, c, depth, height, width]`.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[[[1., 2.]]]]];
/// let y = ops::conv3d(&x, tensor![[[[[3.]]]]], None, &ops::ConvOptions::new(3));
/// assert_eq!(y.to_vec::<f32>(), [3., 6.]);
/// ```
#[track_caller]
pub fn conv3d(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
    let _called = called("conv3d");
    or_poison!(ranked("conv3d", &x.as_tensor(), 3));
    conv(x, weight, bias, options)
}

/// Returns the transposed convolution of `x` `[n, c, spatial..]` with `weight` `[c, o / groups, kernel..]`: the
/// backward-data of [`conv`]. The result has `(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 +
/// output_padding` elements along each spatial axis.
///
/// # Panics
/// Panics in the cases of [`conv`]. Raises [`Code::Argument`] if `output_padding` is neither below the stride nor below
/// the dilation, or if the result has no elements.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (x, weight) = (tensor![[[1., 2.]]], tensor![[[1., 10.]]]);
/// let y = ops::conv_transpose(&x, &weight, None, &ops::ConvOptions::new(1), 0);
/// assert_eq!(y.to_vec::<f32>(), [1., 12., 20.]);
/// ```
#[track_caller]
pub fn conv_transpose(
    x: impl AsTensor,
    weight: impl AsTensor,
    bias: Option<&Tensor>,
    options: &ConvOptions,
    output_padding: impl PerAxis,
) -> Tensor {
    let _called = called("conv_transpose");
    let (x, weight) = (x.as_tensor(), weight.as_tensor());
    propagate_poison!(x, weight);
    let extra = output_padding.per_axis(options.stride.len());
    let sizes = transposed_sizes(&x.dims(), &weight.dims(), options, &extra)
        .map_err(|it| named("conv_transpose", &[&x, &weight], it));
    let (mut sizes, mut window) = (or_poison!(sizes), options.window());
    // A convolution leaves fewer elements than a stride unread at the end. More extra elements than that first replace
    // the padding. The rest is reached by no window and padded with zeros.
    let mut beyond = vec![(0, 0); x.rank()];
    for (axis, &extra) in extra.iter().enumerate() {
        let surplus = (extra + 1).saturating_sub(window.stride[axis]);
        let shared = surplus.min(window.after[axis]);
        window.after[axis] -= shared;
        beyond[axis + 2].1 = surplus - shared;
        sizes[axis] = sizes[axis] - (surplus - shared);
    }
    if sizes.iter().any(|it| it.as_known().is_some_and(|it| it <= 0)) {
        let error = no_result(options, &extra);
        or_poison!(Err(named("conv_transpose", &[&x, &weight], error)));
    }
    // The op refuses a negative size.
    sizes.iter().for_each(|&it| check_not_zero(it));
    let attrs = conv_attrs(&window, options.groups, &sizes);
    let out = apply1(CONV_INPUT_GRAD.op(), &attrs, &[&x, &weight]);
    let is_whole = beyond.iter().all(|it| it.1 == 0);
    with_bias(if is_whole { out } else { pad(out, &beyond, PadMode::Constant(Scalar::Float(0.0))) }, bias)
}

/// Returns the spatial sizes of a transposed convolution.
fn transposed_sizes(x: &[Dim], weight: &[Dim], options: &ConvOptions, extra: &[usize]) -> Result<Dims> {
    let rank = options.stride.len();
    if [x.len(), weight.len(), extra.len() + 2] != [rank + 2; 3] {
        let message = format!("operands of rank {} are needed for {rank} spatial axes", rank + 2);
        return Err(Error::new(Code::Shape, message));
    }
    if let Some(list) = [&options.padding, &options.dilation].into_iter().find(|it| it.len() != rank) {
        let message = format!("{list:?} has {} entries for {rank} spatial axes", list.len());
        return Err(Error::new(Code::Argument, message));
    }
    let size = |axis: usize| {
        let less_one = |dim: Dim| if dim == 0 { dim } else { dim - 1 };
        let reach = less_one(weight[axis + 2]) * options.dilation[axis] + 1 + extra[axis];
        let size = less_one(x[axis + 2]) * options.stride[axis] + reach - 2 * options.padding[axis];
        let inside = extra[axis] < options.stride[axis].max(options.dilation[axis]);
        if !inside || size.as_known().is_some_and(|it| it <= 0) {
            return Err(no_result(options, extra));
        }
        Ok(size)
    };
    (0..rank).map(size).collect()
}

fn no_result(options: &ConvOptions, extra: &[usize]) -> Error {
    let message = format!("padding {:?} and output padding {extra:?} fit no result", options.padding);
    Error::new(Code::Argument, message)
}

/// Applies [`conv_transpose`] over two spatial axes.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (x, weight) = (tensor![[[[1., 2.]]]], tensor![[[[1., 10.]]]]);
/// let y = ops::conv_transpose2d(&x, &weight, None, &ops::ConvOptions::new(2), 0);
/// assert_eq!(y.to_vec::<f32>(), [1., 12., 20.]);
/// ```
#[track_caller]
pub fn conv_transpose2d(
    x: impl AsTensor,
    weight: impl AsTensor,
    bias: Option<&Tensor>,
    options: &ConvOptions,
    output_padding: impl PerAxis,
) -> Tensor {
    let _called = called("conv_transpose2d");
    or_poison!(ranked("conv_transpose2d", &x.as_tensor(), 2));
    conv_transpose(x, weight, bias, options, output_padding)
}

#[track_caller]
pub(in crate::ops) fn ranked(op: &str, x: &Tensor, rank: usize) -> Result<()> {
    if first_poisoned(&[x]).is_some() || x.rank() == rank + 2 {
        return Ok(());
    }
    let message = format!("a batch, a channel and {rank} spatial axes are needed");
    Err(refusal(op, &[x], Code::Shape, message))
}

#[track_caller]
fn with_bias(out: Tensor, bias: Option<&Tensor>) -> Tensor {
    let Some(bias) = bias else { return out };
    propagate_poison!(&out, bias);
    or_poison!(check_dims("conv", "bias", bias, &[out.dims()[1]]));
    let bias = over_channels(bias, out.rank());
    add(out, bias)
}

/// Reshapes one entry per channel so that it broadcasts to a tensor `[n, c, ..]` of a rank.
#[track_caller]
fn over_channels(bias: &Tensor, rank: usize) -> Tensor {
    let mut shape: Dims = smallvec![Dim::new(1); rank - 1];
    shape[0] = bias.ty().elements();
    reshape(bias, shape)
}
