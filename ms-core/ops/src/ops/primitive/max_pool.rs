//! `max_pool`: window maxima, and their gradients.

use super::window::pooling::{check_pooled, pooled_shape, with_channels};
use super::window::{MAX_DILATION, PerAxis, Spatial, Window, spatial};
use crate::ops::composite::convolution::ranked;
use crate::ops::core::axis::{const_shape, named};
use crate::ops::core::host::{narrow_floats, wide_floats};
use crate::ops::core::rules::may_equal;
use crate::ops::{
    Batching, Derivative, Effects, Extent, Ints, Lowering, OpDef, PoolOptions, Sample, SampleInput, SpatialForm,
    SpatialRule, TransformRules,
};
use crate::tensor::{
    AsTensor, Attr, AttrRange, Attrs, DType, Dim, Dims, IntoDims, OpInfo, Shape, Tensor, Type, apply1, collected,
    filled, try_room,
};
use ms_ir::error::{Code, Error, OrExhausted, Result, called};
use smallvec::smallvec;
attributes! {
    /// The attributes of [`MAX_POOL`] and its gradients.
    pub struct MaxPoolAttrs {
        kernel: [i64] where 0..=AttrRange::FACTOR,
        stride: [i64] where 0..=AttrRange::FACTOR,
        dilation: [i64] where 0..=MAX_DILATION,
        before: [i64] where 0..=AttrRange::FACTOR,
        after: [Extent] where 0..=AttrRange::FACTOR,
    }
}

/// Returns the largest element of each window of `[n, c, spatial..]`; NaN if one is NaN.
pub static MAX_POOL: OpDef = OpDef {
    info: OpInfo { number: 430, name: "max_pool", attrs: MaxPoolAttrs::DECLARED },
    infer: |attrs, inputs| Ok(smallvec![Type::new(inputs[0].dtype, pooled_dims(attrs, inputs[0])?)]),
    eval: |attrs, inputs| {
        let x = inputs[0];
        let (pooled, from) = (Pooled::new(attrs, &x.ty())?, wide_floats(x)?);
        let out = collected(pooled.largest(&from).into_iter().map(|at| from[at]));
        Ok(smallvec![narrow_floats(&out, &pooled.output_shape, x.dtype())])
    },
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule { operands: &[0], result: true, form: CHANNELS_LAST }),
    samples: || max_samples(|x, _| vec![x]),
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            smallvec![Some(apply1(MAX_POOL_GRAD.op(), it.attrs, &[&it.inputs[0], it.cotangent()]))]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.merged()),
        body: None,
    },
};

/// Computes the gradient of [`MAX_POOL`]. The second operand has the shape of the forward result. It is added at the
/// positions of the largest elements of the first operand (the first of equal ones).
pub static MAX_POOL_GRAD: OpDef = OpDef {
    info: OpInfo { number: 431, name: "max_pool_grad", attrs: MaxPoolAttrs::DECLARED },
    infer: |attrs, inputs| {
        holds_dims(inputs[1], &pooled_dims(attrs, inputs[0])?)?;
        Ok(smallvec![inputs[0].clone()])
    },
    eval: |attrs, inputs| {
        let (x, g) = (inputs[0], wide_floats(inputs[1])?);
        let (pooled, from) = (Pooled::new(attrs, &x.ty())?, wide_floats(x)?);
        let mut out = filled(0.0, from.len());
        let round = |it: f64| if x.dtype() == DType::F64 { it } else { it as f32 as f64 };
        pooled.largest(&from).into_iter().zip(g).for_each(|(at, g)| out[at] = round(out[at] + g));
        Ok(smallvec![narrow_floats(&out, x.shape(), x.dtype())])
    },
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule { operands: &[0, 1], result: true, form: CHANNELS_LAST }),
    samples: || max_samples(|x, y| vec![x, y]),
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            smallvec![None, Some(apply1(MAX_POOL_TAKE.op(), it.attrs, &[&it.inputs[0], it.cotangent()]))]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.merged()),
        body: None,
    },
};

/// Takes the elements of the second operand at the positions of each window's largest element of the first one. Both
/// operands have the same shape.
pub static MAX_POOL_TAKE: OpDef = OpDef {
    info: OpInfo { number: 432, name: "max_pool_take", attrs: MaxPoolAttrs::DECLARED },
    infer: |attrs, inputs| {
        holds_dims(inputs[1], &inputs[0].dims)?;
        Ok(smallvec![Type::new(inputs[0].dtype, pooled_dims(attrs, inputs[0])?)])
    },
    eval: |attrs, inputs| {
        let (x, h) = (inputs[0], wide_floats(inputs[1])?);
        let pooled = Pooled::new(attrs, &x.ty())?;
        let out = collected(pooled.largest(&wide_floats(x)?).into_iter().map(|at| h[at]));
        Ok(smallvec![narrow_floats(&out, &pooled.output_shape, x.dtype())])
    },
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule { operands: &[0, 1], result: true, form: CHANNELS_LAST }),
    samples: || max_samples(|x, _| vec![x.clone(), x]),
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            smallvec![None, Some(apply1(MAX_POOL_GRAD.op(), it.attrs, &[&it.inputs[0], it.cotangent()]))]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.merged()),
        body: None,
    },
};

/// In NHWC order, windows have the channels as a last axis, along which they are single elements.
const CHANNELS_LAST: SpatialForm = SpatialForm::Pooling(|attrs, _| {
    let it = MaxPoolAttrs::of(attrs);
    let with = |list: Ints<'_>, channels: i64| Attr::from(&*with_channels(list.as_slice(), channels));
    let one = |it| with(it, 1);
    let after = with_channels(&it.after().dims(), Dim::new(0));
    MaxPoolAttrs::attrs(one(it.kernel()), one(it.stride()), one(it.dilation()), with(it.before(), 0), &*after)
});

impl MaxPoolAttrs<'_> {
    /// Returns the windows, if no size is symbolic.
    pub fn window(self) -> Window {
        Window {
            stride: self.stride().sizes(),
            dilation: self.dilation().sizes(),
            before: self.before().sizes(),
            after: self.after().sizes(),
        }
    }
}

fn max_attrs(kernel: &[usize], window: &Window, after: &[Dim]) -> Attrs {
    let Window { stride, dilation, before, .. } = window;
    MaxPoolAttrs::attrs(kernel, &**stride, &**dilation, &**before, after)
}

fn max_samples(operands: fn(SampleInput, SampleInput) -> Vec<SampleInput>) -> Vec<Sample> {
    let of = |x: &[usize], y: &[usize], kernel: &[usize], stride: usize, padding: usize| {
        let all = |value: usize| value.per_axis(kernel.len());
        let window =
            Window { stride: all(stride), before: all(padding), after: all(padding), ..Window::new(kernel.len()) };
        let (x, y) = (SampleInput::f32(x, -2.0, 2.0), SampleInput::f32(y, -2.0, 2.0));
        Sample::new(operands(x, y)).attrs(max_attrs(kernel, &window, &window.after.clone().into_dims()))
    };
    vec![
        of(&[2, 2, 6, 4], &[2, 2, 3, 2], &[2, 2], 2, 0),
        of(&[1, 2, 7, 5], &[1, 2, 4, 3], &[3, 3], 2, 1),
        of(&[2, 1, 5], &[2, 1, 4], &[2], 1, 0),
    ]
}

fn holds_dims(ty: &Type, dims: &[Dim]) -> Result<()> {
    if may_equal(&ty.dims, dims) {
        return Ok(());
    }
    Err(Error::new(Code::Shape, format!("{ty} does not have the shape {dims:?}")))
}

/// Returns the dimensions of a [`MAX_POOL`]'s result.
fn pooled_dims(attrs: &Attrs, x: &Type) -> Result<Dims> {
    let it = MaxPoolAttrs::of(attrs);
    let (kernel, after) = (it.kernel().sizes(), it.after().dims());
    let dims = check_pooled(x, kernel.len())?;
    let first = dims.len() - kernel.len();
    let counts = it.window().counts_after(&dims[first..], &kernel, &after)?;
    it.window().check_counted(&dims[first..], &kernel, &counts)?;
    Ok(pooled_shape(&dims, &counts))
}

/// The windows of a [`MAX_POOL`], along four axes.
struct Pooled {
    output_shape: Shape,
    planes: usize,
    input: Spatial,
    kernel: Spatial,
    output: Spatial,
    stride: Spatial,
    dilation: Spatial,
    before: Spatial,
}

impl Pooled {
    fn new(attrs: &Attrs, x: &Type) -> Result<Self> {
        let it = MaxPoolAttrs::of(attrs);
        let (kernel, window) = (it.kernel().sizes(), it.window());
        let output_shape = const_shape(&Type::new(x.dtype, pooled_dims(attrs, x)?))?;
        let shape = const_shape(x)?;
        let first = shape.len() - kernel.len();
        Ok(Self {
            planes: shape[..first].iter().product(),
            input: spatial(&shape[first..], 1),
            kernel: spatial(&kernel, 1),
            output: spatial(&output_shape[first..], 1),
            stride: spatial(&window.stride, 1),
            dilation: spatial(&window.dilation, 1),
            before: spatial(&window.before, 0),
            output_shape,
        })
    }

    /// Returns the position of the largest element of each window: the first of equal ones, or a NaN.
    fn largest(&self, x: &[f64]) -> Vec<usize> {
        let plane: usize = self.input.iter().product();
        let windows: usize = self.output.iter().product();
        let mut out = try_room(self.planes * windows).or_exhausted();
        for base in (0..self.planes).map(|it| it * plane) {
            for window in 0..windows {
                let (rest, at3) = (window / self.output[3], window % self.output[3]);
                let (rest, at2) = (rest / self.output[2], rest % self.output[2]);
                let at = [rest / self.output[1], rest % self.output[1], at2, at3];
                out.push(base + self.largest_of(&x[base..base + plane], at));
            }
        }
        out
    }

    fn largest_of(&self, plane: &[f64], window: Spatial) -> usize {
        let mut best = None;
        let mut compare = |at: usize| {
            let above = |it: usize| plane[at] > plane[it] || (plane[at].is_nan() && !plane[it].is_nan());
            if best.is_none_or(above) {
                best = Some(at);
            }
        };
        for at0 in self.taps(0, window[0]) {
            for at1 in self.taps(1, window[1]) {
                for at2 in self.taps(2, window[2]) {
                    let line = (at0 * self.input[1] + at1) * self.input[2] + at2;
                    self.taps(3, window[3]).for_each(|at3| compare(line * self.input[3] + at3));
                }
            }
        }
        best.expect("`pooled_dims` refuses windows without an element")
    }

    /// Iterates over the elements of a window along one axis.
    fn taps(&self, axis: usize, window: usize) -> impl Iterator<Item = usize> + '_ {
        let place =
            move |tap: usize| (window * self.stride[axis] + tap * self.dilation[axis]).checked_sub(self.before[axis]);
        (0..self.kernel[axis]).filter_map(place).filter(move |&at| at < self.input[axis])
    }
}

/// Returns the largest element of each window of `x` `[n, c, spatial..]`; NaN if one is NaN.
///
/// # Panics
/// Raises [`Code::Shape`] when a window does not fit, and [`Code::DType`] unless `x` is of floats. Raises
/// [`Code::Argument`] when padding is more than half of a window, or a window contains only padding. With a dilation
/// above one, padding of half of a window leaves such windows on small axes. Symbolic sizes are checked when they are
/// known.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]]]];
/// let options = ops::PoolOptions::new(2, 2).stride(1);
/// assert_eq!(ops::max_pool(&x, &options).to_vec::<f32>(), [5., 6., 8., 9.]);
/// ```
#[track_caller]
pub fn max_pool(x: impl AsTensor, options: &PoolOptions) -> Tensor {
    let x = x.as_tensor();
    or_poison!(ranked("max_pool", &x, options.kernel.len()));
    propagate_poison!(x);
    let sizes = &x.dims()[2..];
    let (window, counts) = or_poison!(options.window(sizes).map_err(|it| named("max_pool", &[&x], it)));
    let attrs = max_attrs(&options.kernel, &window, &options.after(sizes, &counts));
    apply1(MAX_POOL.op(), &attrs, &[&x])
}

/// Applies [`max_pool`] over two spatial axes, with adjacent windows: `[n, c, height, width]`.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]]]];
/// assert_eq!(ops::max_pool2d(&x, 3).to_vec::<f32>(), [9.]);
/// ```
#[track_caller]
pub fn max_pool2d(x: impl AsTensor, kernel: impl PerAxis) -> Tensor {
    let _called = called("max_pool2d");
    max_pool(x, &PoolOptions::new(2, kernel))
}
