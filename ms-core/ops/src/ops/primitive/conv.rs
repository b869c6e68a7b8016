//! `conv`: convolution over one to three spatial axes, its backward-data and its backward-weights.
//!
//! The three primitives are the three contractions of one trilinear form, so they are closed under derivatives of any
//! order.

pub use super::window::attributes::ConvAttrs;
pub(in crate::ops) use super::window::attributes::ConvGradAttrs;
use super::window::attributes::{conv_attrs, with_sizes};
use super::window::geometry::{Geometry, check_gradient, output_dims};
use super::window::{PerAxis, Window};
use super::window::{lanes, taps};
use crate::ops::core::axis::const_shape;
use crate::ops::core::host::{narrow_floats, wide_floats};
use crate::ops::core::indices::check_dtypes;
use crate::ops::{
    Batching, ConvGeometry, ConvResult, Derivative, Effects, Lowering, OpBody, OpDef, Sample, SampleInput, SpatialForm,
    SpatialRule, TransformRules,
};
use crate::tensor::{Array, Attrs, DType, Dim, Dims, IntoDims, Layout, OpInfo, Shape, Tensor, Type, apply1, filled};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

/// Computes the cross-correlation of `[n, c, spatial..]` with weights `[o, c / groups, kernel..]`: `[n, o, spatial..]`.
/// Terms are added in the order of channels and taps (`docs/numerics.md`).
pub static CONV: OpDef = OpDef {
    info: OpInfo { number: 420, name: "conv", attrs: ConvAttrs::DECLARED },
    infer: |attrs, inputs| {
        let dims = output_dims(attrs, inputs[0], &inputs[0].dims, &inputs[1].dims)?;
        check_operands(inputs)?;
        Ok(smallvec![Type::new(inputs[0].dtype, dims)])
    },
    eval: |attrs, inputs| {
        let (x, w) = (inputs[0], inputs[1]);
        let (from, padded, attrs) = with_padding(attrs, x, &[])?;
        let geometry = Geometry::new(&attrs, &padded, &const_shape(&padded)?, w.shape())?;
        let weights = wide_floats(w)?;
        let mut out = filled(0.0, geometry.output_shape.iter().product());
        geometry.rows(|row| {
            let weight = weights[row.weight];
            let input = from[row.input..].iter().step_by(row.step);
            out[row.output..][..row.count].iter_mut().zip(input).for_each(|(to, x)| *to += weight * x);
        });
        Ok(smallvec![narrow_floats(&out, &geometry.output_shape, x.dtype())])
    },
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule {
        operands: &[0],
        result: true,
        form: SpatialForm::Convolution(|attrs, inputs| geometry(attrs, ConvResult::Output, &inputs[1].dims[2..])),
    }),
    samples: || {
        SAMPLES
            .iter()
            .map(|it| {
                Sample::new([SampleInput::f32(it.x, -1.0, 1.0), SampleInput::f32(it.w, -1.0, 1.0)]).attrs(it.attrs(&[]))
            })
            .collect()
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let (g, x, w) = (it.cotangent(), &it.inputs[0], &it.inputs[1]);
            smallvec![
                it.needs[0].then(|| input_grad(it.attrs, g, w, &x.dims()[2..])),
                it.needs[1].then(|| weight_grad(it.attrs, x, g, &w.dims()[2..])),
            ]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(lanes::forward),
        body: Some(OpBody::Image(taps::forward)),
    },
};

/// Computes the backward-data of [`CONV`], for an input of spatial sizes `sizes`, from the gradient of the result and
/// the weights. This is also the transposed convolution. Taps are added in order, each a sum in the order of output
/// channels.
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
        let len = geometry.input_shape.iter().product();
        let mut out = filled(0.0, len);
        let round = |it: f64| if g.dtype() == DType::F64 { it } else { it as f32 as f64 };
        let taps: usize = w.shape()[2..].iter().product();
        for tap in 0..taps {
            let mut terms = filled(0.0, len);
            geometry.rows(|row| {
                if row.weight % taps == tap {
                    let weight = weights[row.weight];
                    let input = terms[row.input..].iter_mut().step_by(row.step);
                    input.zip(&from[row.output..][..row.count]).for_each(|(to, g)| *to += weight * g);
                }
            });
            out.iter_mut().zip(terms).for_each(|(to, term)| *to = round(*to + round(term)));
        }
        Ok(smallvec![narrow_floats(&out, &geometry.input_shape, g.dtype())])
    },
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule {
        operands: &[0],
        result: true,
        form: SpatialForm::Convolution(|attrs, inputs| geometry(attrs, ConvResult::BackwardData, &inputs[1].dims[2..])),
    }),
    samples: || {
        SAMPLES
            .iter()
            .map(|it| {
                Sample::new([SampleInput::f32(it.y, -1.0, 1.0), SampleInput::f32(it.w, -1.0, 1.0)])
                    .attrs(it.attrs(&it.x[2..]))
            })
            .collect()
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let (h, g, w) = (it.cotangent(), &it.inputs[0], &it.inputs[1]);
            smallvec![
                it.needs[0].then(|| conv_of(it.attrs, h, w)),
                it.needs[1].then(|| weight_grad(it.attrs, h, g, &w.dims()[2..])),
            ]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(lanes::input_grad),
        body: Some(OpBody::Image(taps::input_grad)),
    },
};

/// Computes the backward-weights of [`CONV`], for kernel sizes `sizes`, from the input and the gradient of the result.
/// Terms are added in the order of images and windows.
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
        let (input, padded, attrs) = with_padding(attrs, x, &ConvGradAttrs::of(attrs).sizes().dims())?;
        let geometry = Geometry::of_weight(&attrs, &padded, &const_shape(&padded)?, g.shape())?;
        let output = wide_floats(g)?;
        let mut out = filled(0.0, geometry.weight_shape.iter().product());
        geometry.rows(|row| {
            let input = input[row.input..].iter().step_by(row.step);
            let products = input.zip(&output[row.output..][..row.count]).map(|(x, g)| x * g);
            products.for_each(|it| out[row.weight] += it);
        });
        Ok(smallvec![narrow_floats(&out, &geometry.weight_shape, x.dtype())])
    },
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule {
        operands: &[0, 1],
        result: false,
        form: SpatialForm::Convolution(|attrs, _| {
            geometry(attrs, ConvResult::BackwardWeights, &ConvGradAttrs::of(attrs).sizes().dims())
        }),
    }),
    samples: || {
        SAMPLES
            .iter()
            .map(|it| {
                Sample::new([SampleInput::f32(it.x, -1.0, 1.0), SampleInput::f32(it.y, -1.0, 1.0)])
                    .attrs(it.attrs(&it.w[2..]))
            })
            .collect()
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let (v, x, g) = (it.cotangent(), &it.inputs[0], &it.inputs[1]);
            smallvec![
                it.needs[0].then(|| input_grad(it.attrs, g, v, &x.dims()[2..])),
                it.needs[1].then(|| conv_of(it.attrs, x, v)),
            ]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(lanes::weight_grad),
        body: Some(OpBody::Image(taps::weight_grad)),
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

/// Returns the elements of a padded input, its type, and the attributes of windows over it. Padding is zeros that are
/// multiplied like elements.
fn with_padding(attrs: &Attrs, x: &Array, sizes: &[Dim]) -> Result<(Vec<f64>, Type, Attrs)> {
    let at = ConvAttrs::of(attrs);
    let window = at.window();
    let (before, after) = (&window.before, &window.after);
    let mut shape = Shape::from_slice(x.shape());
    let mut starts: Shape = smallvec![0; shape.len()];
    for axis in 0..before.len() {
        shape[2 + axis] += before[axis] + after[axis];
        starts[2 + axis] = before[axis];
    }
    let mut elements = filled(0.0, shape.iter().product());
    let inner = Layout::contiguous(&shape).slice_all(&starts, x.shape(), &vec![1; shape.len()]);
    inner.offsets().zip(wide_floats(x)?).for_each(|(at, it)| elements[at] = it);
    let bare = Window { stride: window.stride.clone(), dilation: window.dilation.clone(), ..Window::new(before.len()) };
    Ok((elements, Type::of(x.dtype(), &shape), conv_attrs(&bare, at.groups(), sizes)))
}

/// Returns the geometry of an op for weights of kernel sizes `kernel`.
fn geometry(attrs: &Attrs, result: ConvResult, kernel: &[Dim]) -> ConvGeometry {
    let kernel = kernel.iter().map(|it| it.as_const().expect("the type rule refuses kernels of unknown sizes"));
    let at = ConvAttrs::of(attrs);
    ConvGeometry { result, kernel: kernel.collect(), window: at.window(), groups: at.groups() }
}

fn check_operands(inputs: &[&Type]) -> Result<()> {
    check_dtypes(inputs[0], inputs[1])?;
    if !inputs[0].dtype.is_float() {
        return Err(Error::new(Code::DType, format!("convolutions are of floats, not {}", inputs[0].dtype)));
    }
    Ok(())
}
