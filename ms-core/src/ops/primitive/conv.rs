//! `conv`: convolution over one to three spatial axes, and its two gradients.
//!
//! The three primitives are the three contractions of one trilinear form, so they are closed under
//! derivatives of any order.

use super::gather::check_dtypes;
use super::window::geometry::{Geometry, check_gradient, output_dims};
use super::window::lanes;
use super::window::{PerAxis, Window};
use crate::error::{Code, Error, Result};
use crate::ir::ContractionRanks;
use crate::ops::core::host::{narrow_floats, wide_floats};
use crate::ops::{Batching, ContractedViews, Derivative, Effects, Lowering, OpDef, Sample, SampleInput};
use crate::tensor::{Attrs, Dim, Dims, IntoDims, Layout, OpInfo, Shape, Strides, Tensor, Type, apply1, filled};
use smallvec::smallvec;
attributes! {
    /// The attributes of [`CONV`], with which those of its gradients begin.
    pub struct ConvAttrs { stride: [i64], dilation: [i64], before: [i64], after: [i64], groups: usize }
}

attributes! {
    /// The attributes of the gradients of [`CONV`]: also the spatial sizes of the result.
    pub(in crate::ops) struct ConvGradAttrs {
        stride: [i64],
        dilation: [i64],
        before: [i64],
        after: [i64],
        groups: usize,
        sizes: [i64],
    }
}

/// Cross-correlation of `[n, c, spatial..]` with weights `[o, c / groups, kernel..]`:
/// `[n, o, spatial..]`. Terms are added in the order of channels and taps (`docs/numerics.md`).
pub static CONV: OpDef = OpDef {
    info: OpInfo { number: 420, name: "conv", attrs: ConvAttrs::DECLARED },
    infer: |attrs, inputs| {
        let dims = output_dims(attrs, inputs[0], &inputs[0].dims, &inputs[1].dims)?;
        check_operands(inputs)?;
        Ok(smallvec![Type::new(inputs[0].dtype, dims)])
    },
    eval: |attrs, inputs| {
        let (x, w) = (inputs[0], inputs[1]);
        let geometry = Geometry::new(attrs, &x.ty(), x.shape(), w.shape())?;
        let (from, weights) = (wide_floats(x)?, wide_floats(w)?);
        let mut out = filled(0.0, geometry.output_shape.iter().product());
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
            it.needs[0].then(|| input_grad(it.attrs, g, w, &x.dims()[2..])),
            it.needs[1].then(|| weight_grad(it.attrs, x, g, &w.dims()[2..])),
        ]
    }),
    finite_derivatives: true,
    effects: Effects::NONE,
    batching: Batching::Rule(lanes::forward),
    lowering: Lowering::Contractible(over_patches),
    samples: || {
        SAMPLES
            .iter()
            .map(|it| {
                Sample::new([SampleInput::f32(it.x, -1.0, 1.0), SampleInput::f32(it.w, -1.0, 1.0)]).attrs(it.attrs(&[]))
            })
            .collect()
    },
};

/// The contraction of weights and patches, if windows do not overlap, contain no padding, and there is one group: over
/// channels and taps, in their order. The patches are a view of the input.
fn over_patches(attrs: &Attrs, operands: &[&Layout]) -> Option<ContractedViews> {
    let attrs = ConvAttrs::of(attrs);
    let ([x, w], Window { stride, dilation, before, after }) = (operands, attrs.window()) else { return None };
    let (spatial, kernel) = (x.rank() - 2, &w.shape()[2..]);
    let is_patch = |axis: usize| {
        let tiles = kernel[axis] == 1 || (stride[axis] == kernel[axis] && dilation[axis] == 1);
        tiles && (before[axis], after[axis]) == (0, 0)
    };
    if attrs.groups() != 1 || !(0..spatial).all(is_patch) || w.numel() == 0 {
        return None;
    }
    let (mut shape, mut strides) = (Shape::from_slice(&x.shape()[..2]), Strides::from_slice(&x.strides()[..2]));
    shape.extend(kernel.iter().copied());
    strides.extend_from_slice(&x.strides()[2..]);
    for axis in 0..spatial {
        shape.push((x.shape()[2 + axis] - kernel[axis]) / stride[axis] + 1);
        strides.push(x.strides()[2 + axis] * stride[axis] as isize);
    }
    let patches = Layout::new(shape, strides, x.offset());
    let images = x.shape()[..1].iter().chain(w.shape()).copied().collect();
    let weights = Layout::new(images, std::iter::once(&0).chain(w.strides()).copied().collect(), w.offset());
    Some(ContractedViews { ranks: ContractionRanks { batch: 1, k: 1 + spatial }, views: [(1, weights), (0, patches)] })
}

/// The gradient of [`CONV`] for its input of spatial sizes `sizes`: from the gradient of its
/// result and the weights. It is also the transposed convolution. Taps are added in order, each a sum
/// in the order of output channels.
pub static CONV_INPUT_GRAD: OpDef = OpDef {
    info: OpInfo { number: 421, name: "conv_input_grad", attrs: ConvGradAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (g, w) = (inputs[0], inputs[1]);
        let channels = w.dims.get(1).copied().unwrap_or(Dim::new(0)) * ConvAttrs::of(attrs).groups();
        let batch = g.dims.first().copied().unwrap_or(Dim::new(0));
        let input: Dims = [batch, channels].into_iter().chain(ConvGradAttrs::of(attrs).sizes().dims()).collect();
        check_gradient(attrs, g, &input, &w.dims, &g.dims)?;
        check_operands(inputs)?;
        Ok(smallvec![Type::new(g.dtype, input)])
    },
    eval: |attrs, inputs| {
        let (g, w) = (inputs[0], inputs[1]);
        let geometry = Geometry::of_input(attrs, &g.ty(), g.shape(), w.shape())?;
        let (from, weights) = (wide_floats(g)?, wide_floats(w)?);
        let mut out = filled(0.0, geometry.input_shape.iter().product());
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
            it.needs[1].then(|| weight_grad(it.attrs, h, g, &w.dims()[2..])),
        ]
    }),
    finite_derivatives: true,
    effects: Effects::NONE,
    batching: Batching::Rule(lanes::input_grad),
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
/// gradient of its result. Terms are added in the order of images and windows.
pub static CONV_WEIGHT_GRAD: OpDef = OpDef {
    info: OpInfo { number: 422, name: "conv_weight_grad", attrs: ConvGradAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (x, g) = (inputs[0], inputs[1]);
        let axis = |ty: &Type| ty.dims.get(1).copied().unwrap_or(Dim::new(0));
        let channels = axis(x) / (ConvAttrs::of(attrs).groups()).max(1);
        let weight: Dims = [axis(g), channels].into_iter().chain(ConvGradAttrs::of(attrs).sizes().dims()).collect();
        check_gradient(attrs, x, &x.dims, &weight, &g.dims)?;
        check_operands(inputs)?;
        Ok(smallvec![Type::new(x.dtype, weight)])
    },
    eval: |attrs, inputs| {
        let (x, g) = (inputs[0], inputs[1]);
        let geometry = Geometry::of_weight(attrs, &x.ty(), x.shape(), g.shape())?;
        let (input, output) = (wide_floats(x)?, wide_floats(g)?);
        let mut out = filled(0.0, geometry.weight_shape.iter().product());
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
            it.needs[0].then(|| input_grad(it.attrs, g, v, &x.dims()[2..])),
            it.needs[1].then(|| conv_of(it.attrs, x, v)),
        ]
    }),
    finite_derivatives: true,
    effects: Effects::NONE,
    batching: Batching::Rule(lanes::weight_grad),
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

/// A convolution of the generated tests.
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
        conv_attrs(&window, self.groups, &sizes.into_dims())
    }
}

pub(in crate::ops) fn conv_attrs(window: &Window, groups: usize, sizes: &[Dim]) -> Attrs {
    let Window { stride, dilation, before, after } = window;
    match sizes {
        [] => ConvAttrs::attrs(&**stride, &**dilation, &**before, &**after, groups),
        sizes => ConvGradAttrs::attrs(&**stride, &**dilation, &**before, &**after, groups, sizes),
    }
}

impl ConvAttrs<'_> {
    /// The windows.
    pub fn window(self) -> Window {
        Window {
            stride: self.stride().sizes(),
            dilation: self.dilation().sizes(),
            before: self.before().sizes(),
            after: self.after().sizes(),
        }
    }
}

/// Converts the attributes of one of the three ops to those of another.
fn with_sizes(attrs: &Attrs, sizes: &[Dim]) -> Attrs {
    with_groups(attrs, ConvAttrs::of(attrs).groups(), sizes)
}

/// Like [`with_sizes`], with another number of groups.
pub(in crate::ops) fn with_groups(attrs: &Attrs, groups: usize, sizes: &[Dim]) -> Attrs {
    conv_attrs(&ConvAttrs::of(attrs).window(), groups, sizes)
}

#[track_caller]
fn conv_of(attrs: &Attrs, x: &Tensor, w: &Tensor) -> Tensor {
    apply1(CONV.op(), &with_sizes(attrs, &[]), &[x, w])
}

#[track_caller]
fn input_grad(attrs: &Attrs, g: &Tensor, w: &Tensor, sizes: &[Dim]) -> Tensor {
    apply1(CONV_INPUT_GRAD.op(), &with_sizes(attrs, sizes), &[g, w])
}

#[track_caller]
fn weight_grad(attrs: &Attrs, x: &Tensor, g: &Tensor, sizes: &[Dim]) -> Tensor {
    apply1(CONV_WEIGHT_GRAD.op(), &with_sizes(attrs, sizes), &[x, g])
}

fn check_operands(inputs: &[&Type]) -> Result<()> {
    check_dtypes(inputs[0], inputs[1])?;
    if !inputs[0].dtype.is_float() {
        return Err(Error::new(Code::DType, format!("convolutions are of floats, not {}", inputs[0].dtype)));
    }
    Ok(())
}
