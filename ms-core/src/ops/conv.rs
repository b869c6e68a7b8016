//! `conv`: convolution over one to three spatial axes, and its two gradients.
//!
//! The three primitives are the three contractions of one trilinear form, so that derivatives
//! of any order are among them again.

use super::axis::{const_shape, refusal};
use super::gather::check_dtypes;
use super::host::{narrow_floats, wide_floats};
use super::window::{PerAxis, Spatial, Window, spatial};
use super::{Derivative, Lowering, OpDef, Sample, SampleInput, Types, add, reshape};
use crate::error::{Code, Error, Result, raise};
use crate::tensor::{AsTensor, Attr, Attrs, OpInfo, Shape, Tensor, Type, apply1};
use smallvec::smallvec;

/// Cross-correlation of `[n, c, spatial..]` with weights `[o, c / groups, kernel..]`:
/// `[n, o, spatial..]`.
pub static CONV: OpDef = OpDef {
    info: OpInfo { number: 420, name: "conv", attrs: &["stride", "dilation", "before", "after", "groups"] },
    infer: |attrs, inputs| {
        let (x, w) = (const_shape(inputs[0])?, const_shape(inputs[1])?);
        let geometry = Geometry::new(attrs, inputs[0], &x, &w)?;
        check_operands(inputs)?;
        Ok(geometry.result(inputs[0], &geometry.output_shape))
    },
    eval: |attrs, inputs| {
        let (x, w) = (inputs[0], inputs[1]);
        let geometry = Geometry::new(attrs, &x.ty(), x.shape(), w.shape())?;
        let (from, weights) = (wide_floats(x), wide_floats(w));
        let mut out = vec![0.0; geometry.output_shape.iter().product()];
        geometry.rows(|row| {
            let weight = weights[row.weight];
            let input = from[row.input..].iter().step_by(row.step);
            out[row.output..][..row.count].iter_mut().zip(input).for_each(|(to, x)| *to += weight * x);
        });
        Ok(smallvec![narrow_floats(&out, &geometry.output_shape, x.dtype())])
    },
    derivative: Derivative::Rule(|it| {
        let (g, x, w) = (it.cotangent(), &it.inputs[0], &it.inputs[1]);
        smallvec![
            it.needs[0].then(|| input_grad(it.attrs, g, w, &x.shape()[2..])),
            it.needs[1].then(|| weight_grad(it.attrs, x, g, &w.shape()[2..])),
        ]
    }),
    lowering: Lowering::Library,
    samples: || {
        SAMPLES
            .iter()
            .map(|it| {
                Sample::new([SampleInput::f32(it.x, -1.0, 1.0), SampleInput::f32(it.w, -1.0, 1.0)]).attrs(it.attrs(&[]))
            })
            .collect()
    },
};

/// The gradient of [`CONV`] for its input of spatial sizes `sizes`: from the gradient of its
/// result and the weights. It is also the transposed convolution.
pub static CONV_INPUT_GRAD: OpDef = OpDef {
    info: OpInfo {
        number: 421,
        name: "conv_input_grad",
        attrs: &["stride", "dilation", "before", "after", "groups", "sizes"],
    },
    infer: |attrs, inputs| {
        let (g, w) = (const_shape(inputs[0])?, const_shape(inputs[1])?);
        let geometry = Geometry::of_input(attrs, inputs[0], &g, &w)?;
        check_operands(inputs)?;
        Ok(geometry.result(inputs[0], &geometry.input_shape))
    },
    eval: |attrs, inputs| {
        let (g, w) = (inputs[0], inputs[1]);
        let geometry = Geometry::of_input(attrs, &g.ty(), g.shape(), w.shape())?;
        let (from, weights) = (wide_floats(g), wide_floats(w));
        let mut out = vec![0.0; geometry.input_shape.iter().product()];
        geometry.rows(|row| {
            let weight = weights[row.weight];
            let input = out[row.input..].iter_mut().step_by(row.step);
            input.zip(&from[row.output..][..row.count]).for_each(|(to, g)| *to += weight * g);
        });
        Ok(smallvec![narrow_floats(&out, &geometry.input_shape, g.dtype())])
    },
    derivative: Derivative::Rule(|it| {
        let (h, g, w) = (it.cotangent(), &it.inputs[0], &it.inputs[1]);
        smallvec![
            it.needs[0].then(|| conv_of(it.attrs, h, w)),
            it.needs[1].then(|| weight_grad(it.attrs, h, g, &w.shape()[2..])),
        ]
    }),
    lowering: Lowering::Library,
    samples: || {
        SAMPLES
            .iter()
            .map(|it| {
                Sample::new([SampleInput::f32(it.y, -1.0, 1.0), SampleInput::f32(it.w, -1.0, 1.0)])
                    .attrs(it.attrs(&it.x[2..]))
            })
            .collect()
    },
};

/// The gradient of [`CONV`] for its weights of kernel sizes `sizes`: from its input and the
/// gradient of its result.
pub static CONV_WEIGHT_GRAD: OpDef = OpDef {
    info: OpInfo {
        number: 422,
        name: "conv_weight_grad",
        attrs: &["stride", "dilation", "before", "after", "groups", "sizes"],
    },
    infer: |attrs, inputs| {
        let (x, g) = (const_shape(inputs[0])?, const_shape(inputs[1])?);
        let geometry = Geometry::of_weight(attrs, inputs[0], &x, &g)?;
        check_operands(inputs)?;
        Ok(geometry.result(inputs[0], &geometry.weight_shape))
    },
    eval: |attrs, inputs| {
        let (x, g) = (inputs[0], inputs[1]);
        let geometry = Geometry::of_weight(attrs, &x.ty(), x.shape(), g.shape())?;
        let (input, output) = (wide_floats(x), wide_floats(g));
        let mut out = vec![0.0; geometry.weight_shape.iter().product()];
        geometry.rows(|row| {
            let input = input[row.input..].iter().step_by(row.step);
            let products = input.zip(&output[row.output..][..row.count]).map(|(x, g)| x * g);
            out[row.weight] += products.sum::<f64>();
        });
        Ok(smallvec![narrow_floats(&out, &geometry.weight_shape, x.dtype())])
    },
    derivative: Derivative::Rule(|it| {
        let (v, x, g) = (it.cotangent(), &it.inputs[0], &it.inputs[1]);
        smallvec![
            it.needs[0].then(|| input_grad(it.attrs, g, v, &x.shape()[2..])),
            it.needs[1].then(|| conv_of(it.attrs, x, v)),
        ]
    }),
    lowering: Lowering::Library,
    samples: || {
        SAMPLES
            .iter()
            .map(|it| {
                Sample::new([SampleInput::f32(it.x, -1.0, 1.0), SampleInput::f32(it.y, -1.0, 1.0)])
                    .attrs(it.attrs(&it.w[2..]))
            })
            .collect()
    },
};

/// One convolution that the generated tests try.
struct ConvSample {
    x: &'static [usize],
    w: &'static [usize],
    y: &'static [usize],
    stride: usize,
    dilation: usize,
    padding: usize,
    groups: usize,
}

const SAMPLES: &[ConvSample] = &[
    ConvSample { x: &[2, 3, 5, 6], w: &[4, 3, 3, 2], y: &[2, 4, 3, 5], stride: 1, dilation: 1, padding: 0, groups: 1 },
    ConvSample { x: &[1, 4, 6, 7], w: &[2, 2, 3, 3], y: &[1, 2, 3, 4], stride: 2, dilation: 1, padding: 1, groups: 2 },
    ConvSample { x: &[2, 2, 9], w: &[3, 2, 3], y: &[2, 3, 7], stride: 1, dilation: 2, padding: 1, groups: 1 },
    ConvSample {
        x: &[1, 1, 3, 4, 3],
        w: &[2, 1, 2, 2, 2],
        y: &[1, 2, 2, 3, 2],
        stride: 1,
        dilation: 1,
        padding: 0,
        groups: 1,
    },
];

impl ConvSample {
    fn attrs(&self, sizes: &[usize]) -> Attrs {
        let rank = self.x.len() - 2;
        let all = |value: usize| value.per_axis(rank);
        let window = Window {
            stride: all(self.stride),
            dilation: all(self.dilation),
            before: all(self.padding),
            after: all(self.padding),
        };
        conv_attrs(&window, self.groups, sizes)
    }
}

fn conv_attrs(window: &Window, groups: usize, sizes: &[usize]) -> Attrs {
    let lists = [&window.stride, &window.dilation, &window.before, &window.after];
    let lists = lists.into_iter().map(|it| Attr::from(&**it));
    let sizes = (!sizes.is_empty()).then(|| Attr::from(sizes));
    Attrs::new(lists.chain([groups.into()]).chain(sizes))
}

/// The attributes of one of the three ops, turned into another's.
fn with_sizes(attrs: &Attrs, sizes: &[usize]) -> Attrs {
    conv_attrs(&Window::of(attrs, 0), attrs.int(4) as usize, sizes)
}

#[track_caller]
fn conv_of(attrs: &Attrs, x: &Tensor, w: &Tensor) -> Tensor {
    apply1(CONV.op(), &with_sizes(attrs, &[]), &[x, w])
}

#[track_caller]
fn input_grad(attrs: &Attrs, g: &Tensor, w: &Tensor, sizes: &[usize]) -> Tensor {
    apply1(CONV_INPUT_GRAD.op(), &with_sizes(attrs, sizes), &[g, w])
}

#[track_caller]
fn weight_grad(attrs: &Attrs, x: &Tensor, g: &Tensor, sizes: &[usize]) -> Tensor {
    apply1(CONV_WEIGHT_GRAD.op(), &with_sizes(attrs, sizes), &[x, g])
}

fn check_operands(inputs: &[&Type]) -> Result<()> {
    check_dtypes(inputs[0], inputs[1])?;
    if !inputs[0].dtype.is_float() {
        return Err(Error::new(Code::DType, format!("convolutions are of floats, not {}", inputs[0].dtype)));
    }
    Ok(())
}

/// The sizes of one convolution, with three spatial axes.
struct Geometry {
    input_shape: Shape,
    weight_shape: Shape,
    output_shape: Shape,
    groups: usize,
    input: Spatial,
    kernel: Spatial,
    output: Spatial,
    stride: Spatial,
    dilation: Spatial,
    before: Spatial,
}

/// A run of outputs to which one weight carries evenly spaced inputs.
struct Row {
    output: usize,
    input: usize,
    weight: usize,
    count: usize,
    step: usize,
}

impl Geometry {
    fn new(attrs: &Attrs, x: &Type, input: &[usize], weight: &[usize]) -> Result<Self> {
        let (window, groups) = (Window::of(attrs, 0), attrs.int(4) as usize);
        if input.len() < 3 || weight.len() != input.len() {
            let message = format!("{x} with weights {weight:?}: both need a batch or output, a channel and spatial axes");
            return Err(Error::new(Code::Shape, message));
        }
        let channels_fit = groups > 0 && input[1] == weight[1] * groups && weight[0].is_multiple_of(groups);
        if !channels_fit {
            let message = format!(
                "{} channels do not fit weights {weight:?} in {groups} group{}",
                input[1],
                if groups == 1 { "" } else { "s" }
            );
            return Err(Error::new(Code::Shape, message));
        }
        let counts = window.counts(&input[2..], &weight[2..])?;
        Ok(Self {
            output_shape: [input[0], weight[0]].into_iter().chain(counts.iter().copied()).collect(),
            input_shape: input.into(),
            weight_shape: weight.into(),
            groups,
            input: spatial(&input[2..], 1),
            kernel: spatial(&weight[2..], 1),
            output: spatial(&counts, 1),
            stride: spatial(&window.stride, 1),
            dilation: spatial(&window.dilation, 1),
            before: spatial(&window.before, 0),
        })
    }

    /// From the shapes of the result and of the weights, and the input's spatial sizes.
    fn of_input(attrs: &Attrs, g: &Type, output: &[usize], weight: &[usize]) -> Result<Self> {
        let channels = weight.get(1).copied().unwrap_or(0) * attrs.int(4) as usize;
        let batch = output.first().copied().unwrap_or(0);
        let input: Shape = [batch, channels].into_iter().chain(attrs.sizes(5)).collect();
        Self::new(attrs, g, &input, weight)?.holding(output)
    }

    /// From the shapes of the input and of the result, and the kernel's sizes.
    fn of_weight(attrs: &Attrs, x: &Type, input: &[usize], output: &[usize]) -> Result<Self> {
        let channels = input.get(1).copied().unwrap_or(0) / (attrs.int(4) as usize).max(1);
        let weight: Shape = [output.get(1).copied().unwrap_or(0), channels].into_iter().chain(attrs.sizes(5)).collect();
        Self::new(attrs, x, input, &weight)?.holding(output)
    }

    fn holding(self, output: &[usize]) -> Result<Self> {
        if *self.output_shape != *output {
            let message = format!("the gradient has shape {output:?}, the convolution gives {:?}", self.output_shape);
            return Err(Error::new(Code::Shape, message));
        }
        Ok(self)
    }

    fn result(&self, like: &Type, shape: &[usize]) -> Types {
        smallvec![Type::of(like.dtype, shape)]
    }

    /// Visits every pair of an output row and a weight that reaches it.
    fn rows(&self, mut visit: impl FnMut(Row)) {
        let (channels, per_group) = (self.weight_shape[1], self.weight_shape[0] / self.groups);
        let size = |it: &Spatial| it.iter().product::<usize>();
        let (plane, taps, out_plane) = (size(&self.input), size(&self.kernel), size(&self.output));
        for batch in 0..self.input_shape[0] {
            for out_channel in 0..self.weight_shape[0] {
                let output = (batch * self.weight_shape[0] + out_channel) * out_plane;
                for channel in 0..channels {
                    let in_channel = out_channel / per_group * channels + channel;
                    let input = (batch * self.input_shape[1] + in_channel) * plane;
                    let weight = (out_channel * channels + channel) * taps;
                    self.plane_rows(Row { output, input, weight, count: 0, step: self.stride[2] }, &mut visit);
                }
            }
        }
    }

    /// Visits the rows of one plane, whose places are relative to `base`.
    fn plane_rows(&self, base: Row, visit: &mut impl FnMut(Row)) {
        for tap0 in 0..self.kernel[0] {
            for tap1 in 0..self.kernel[1] {
                for tap2 in 0..self.kernel[2] {
                    let weight = base.weight + (tap0 * self.kernel[1] + tap1) * self.kernel[2] + tap2;
                    let inside = self.inside(2, tap2);
                    if inside.is_empty() {
                        continue;
                    }
                    let column = self.place(2, tap2, inside.start);
                    for at0 in self.inside(0, tap0) {
                        for at1 in self.inside(1, tap1) {
                            let line = self.place(0, tap0, at0) * self.input[1] + self.place(1, tap1, at1);
                            let out_line = at0 * self.output[1] + at1;
                            visit(Row {
                                output: base.output + out_line * self.output[2] + inside.start,
                                input: base.input + line * self.input[2] + column,
                                weight,
                                count: inside.len(),
                                step: base.step,
                            });
                        }
                    }
                }
            }
        }
    }

    /// The windows along an axis whose tap lies on an element, not on padding.
    fn inside(&self, axis: usize, tap: usize) -> std::ops::Range<usize> {
        let (offset, stride) = (tap * self.dilation[axis], self.stride[axis]);
        let first = self.before[axis].saturating_sub(offset).div_ceil(stride);
        let end = (self.input[axis] + self.before[axis]).saturating_sub(offset).div_ceil(stride);
        first..end.min(self.output[axis]).max(first)
    }

    /// The element on which the tap of a window lies.
    fn place(&self, axis: usize, tap: usize, window: usize) -> usize {
        window * self.stride[axis] + tap * self.dilation[axis] - self.before[axis]
    }
}

/// How a convolution is laid: strides, padding on both sides, dilation, groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvOptions {
    /// From one window to the next, by spatial axis.
    pub stride: Shape,
    /// Zeros on both sides, by spatial axis.
    pub padding: Shape,
    /// From one tap to the next, by spatial axis.
    pub dilation: Shape,
    /// Channels are cut into this many groups that do not see each other.
    pub groups: usize,
}

impl ConvOptions {
    /// Stride and dilation one, no padding, one group, along `rank` spatial axes.
    pub fn new(rank: usize) -> Self {
        Self { stride: 1.per_axis(rank), padding: 0.per_axis(rank), dilation: 1.per_axis(rank), groups: 1 }
    }

    /// With a stride: one number, or one for each spatial axis.
    pub fn stride(mut self, stride: impl PerAxis) -> Self {
        self.stride = stride.per_axis(self.stride.len());
        self
    }

    /// With padding on both sides: one number, or one for each spatial axis.
    pub fn padding(mut self, padding: impl PerAxis) -> Self {
        self.padding = padding.per_axis(self.padding.len());
        self
    }

    /// With a dilation: one number, or one for each spatial axis.
    pub fn dilation(mut self, dilation: impl PerAxis) -> Self {
        self.dilation = dilation.per_axis(self.dilation.len());
        self
    }

    /// With groups of channels.
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

/// Cross-correlation of `x` `[n, c, spatial..]` with `weight` `[o, c / groups, kernel..]`, plus
/// `bias` `[o]`, over one to three spatial axes.
///
/// # Panics
/// Raises [`Code::Shape`] when shapes do not fit, [`Code::DType`] unless the operands are of one
/// float dtype, [`Code::Argument`] for a zero stride.
#[track_caller]
pub fn conv(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
    let (x, weight) = (x.as_tensor(), weight.as_tensor());
    let out = apply1(CONV.op(), &conv_attrs(&options.window(), options.groups, &[]), &[&x, &weight]);
    with_bias(out, bias)
}

/// [`conv`] over one spatial axis: `[n, c, length]`.
#[track_caller]
pub fn conv1d(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
    ranked("conv1d", &x.as_tensor(), 1);
    conv(x, weight, bias, options)
}

/// [`conv`] over two spatial axes: `[n, c, height, width]`.
#[track_caller]
pub fn conv2d(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
    ranked("conv2d", &x.as_tensor(), 2);
    conv(x, weight, bias, options)
}

/// [`conv`] over three spatial axes: `[n, c, depth, height, width]`.
#[track_caller]
pub fn conv3d(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
    ranked("conv3d", &x.as_tensor(), 3);
    conv(x, weight, bias, options)
}

/// The transposed convolution of `x` `[n, c, spatial..]` with `weight` `[c, o / groups,
/// kernel..]`: the gradient of [`conv`] for its input. The result has
/// `(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + output_padding` places
/// along each spatial axis.
///
/// # Panics
/// As [`conv`], and [`Code::Argument`] when `output_padding` is not below the stride or no
/// place is left.
#[track_caller]
pub fn conv_transpose(
    x: impl AsTensor,
    weight: impl AsTensor,
    bias: Option<&Tensor>,
    options: &ConvOptions,
    output_padding: impl PerAxis,
) -> Tensor {
    let (x, weight) = (x.as_tensor(), weight.as_tensor());
    let refuse = |code, message: String| -> ! { raise(refusal("conv_transpose", &[&x, &weight], code, message)) };
    let rank = options.stride.len();
    let extra = output_padding.per_axis(rank);
    if x.rank() != rank + 2 || weight.rank() != rank + 2 || extra.len() != rank {
        refuse(Code::Shape, format!("operands of rank {} are needed for {rank} spatial axes", rank + 2));
    }
    let size = |axis: usize| {
        let reach = options.dilation[axis] * weight.shape()[axis + 2].saturating_sub(1) + 1 + extra[axis];
        let full = x.shape()[axis + 2].saturating_sub(1) * options.stride[axis] + reach;
        match full.checked_sub(2 * options.padding[axis]) {
            Some(size) if size > 0 && extra[axis] < options.stride[axis].max(options.dilation[axis]) => size,
            _ => refuse(Code::Argument, format!("padding {:?} and {extra:?} fit no result", options.padding)),
        }
    };
    let sizes: Shape = (0..rank).map(size).collect();
    let attrs = conv_attrs(&options.window(), options.groups, &sizes);
    with_bias(apply1(CONV_INPUT_GRAD.op(), &attrs, &[&x, &weight]), bias)
}

/// [`conv_transpose`] over two spatial axes.
#[track_caller]
pub fn conv_transpose2d(
    x: impl AsTensor,
    weight: impl AsTensor,
    bias: Option<&Tensor>,
    options: &ConvOptions,
    output_padding: impl PerAxis,
) -> Tensor {
    ranked("conv_transpose2d", &x.as_tensor(), 2);
    conv_transpose(x, weight, bias, options, output_padding)
}

#[track_caller]
pub(super) fn ranked(op: &str, x: &Tensor, rank: usize) {
    if x.rank() != rank + 2 {
        let message = format!("a batch, a channel and {rank} spatial axes are needed");
        raise(refusal(op, &[x], Code::Shape, message));
    }
}

#[track_caller]
fn with_bias(out: Tensor, bias: Option<&Tensor>) -> Tensor {
    let Some(bias) = bias else { return out };
    let mut shape: Shape = smallvec![1; out.rank() - 1];
    shape[0] = bias.numel();
    add(&out, reshape(bias, shape))
}
