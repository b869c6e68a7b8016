//! `avg_pool` and `adaptive_avg_pool`: window means, and their gradients.

use super::window::pooling::{check_pooled, pooled_shape, with_channels};
use super::window::{PerAxis, Spatial, Window, spatial};
use crate::ops::composite::convolution::ranked;
use crate::ops::core::axis::named;
use crate::ops::core::host::{narrow_floats, wide_floats};
use crate::ops::core::rules::may_equal;
use crate::ops::{
    Arrays, Batching, Derivative, Effects, Extent, Ints, Lowering, OpDef, PoolOptions, Sample, SampleInput,
    SpatialForm, SpatialRule, TransformRules, Types,
};
use crate::tensor::{
    Array, AsTensor, Attr, AttrRange, Attrs, Dim, IntoDims, Op, OpInfo, Shape, Tensor, Type, apply1, collected, filled,
    refused,
};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result, called};
use smallvec::smallvec;
use std::iter::StepBy;
attributes! {
    /// The attributes of [`AVG_POOL`]; the attributes of its gradient begin with them.
    struct AvgPoolAttrs {
        kernel: [i64] where 0..=AttrRange::FACTOR,
        stride: [i64] where 0..=AttrRange::FACTOR,
        before: [i64] where 0..=AttrRange::FACTOR,
        after: [i64] where 0..=AttrRange::FACTOR,
        count: [Extent] where 0..=i64::MAX,
        count_pad: bool,
    }
}

attributes! {
    /// The attributes of [`AVG_POOL_GRAD`].
    struct AvgPoolGradAttrs {
        kernel: [i64] where 0..=AttrRange::FACTOR,
        stride: [i64] where 0..=AttrRange::FACTOR,
        before: [i64] where 0..=AttrRange::FACTOR,
        after: [i64] where 0..=AttrRange::FACTOR,
        count: [Extent] where 0..=i64::MAX,
        count_pad: bool,
        sizes: [Extent] where 0..=i64::MAX,
    }
}

attributes! {
    /// The attributes of [`ADAPTIVE_AVG_POOL`]; the attributes of its gradient begin with them.
    struct AdaptiveAttrs { count: [Extent] where 0..=i64::MAX }
}

attributes! {
    /// The attributes of [`ADAPTIVE_AVG_POOL_GRAD`].
    struct AdaptiveGradAttrs { count: [Extent] where 0..=i64::MAX, sizes: [Extent] where 0..=i64::MAX }
}

/// Returns the mean of each window of `[n, c, spatial..]`. There are `count` windows along each axis, clipped to the
/// axis with its padding. The divisor includes padding if `count_pad` is set.
pub static AVG_POOL: OpDef = OpDef {
    info: OpInfo { number: 435, name: "avg_pool", attrs: AvgPoolAttrs::DECLARED },
    infer: |attrs, inputs| {
        let check = |rank, sizes: &[usize]| {
            let counts = AvgPoolAttrs::of(attrs).count().sizes();
            // The number of channels can be zero in NHWC order.
            if rank == sizes.len() + 2 && counts.contains(&0) {
                let message = format!("a window does not fit axes of {sizes:?}, padding included");
                return Err(Error::new(Code::Shape, message));
            }
            ranges_of_windows(attrs, sizes, check_elements)
        };
        mean_type(inputs[0], &AvgPoolAttrs::of(attrs).count().dims(), check)
    },
    eval: |attrs, inputs| evaluate(AVG_POOL.op(), attrs, inputs[0], &AvgPoolAttrs::of(attrs).count().sizes()),
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule {
        operands: &[0],
        result: true,
        form: SpatialForm::Pooling(|attrs, channels| AvgPoolAttrs::of(attrs).with_channels(channels)),
    }),
    samples: || avg_samples(false),
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            smallvec![Some(apply1(
                AVG_POOL_GRAD.op(),
                &AvgPoolAttrs::of(it.attrs)
                    .with_sizes(windowed(&it.inputs[0].dims(), &AvgPoolAttrs::of(it.attrs).count().dims())),
                &[it.cotangent()]
            ))]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.merged()),
        body: None,
    },
};

/// Computes the gradient of [`AVG_POOL`] for an input of spatial sizes `sizes`.
pub static AVG_POOL_GRAD: OpDef = OpDef {
    info: OpInfo { number: 436, name: "avg_pool_grad", attrs: AvgPoolGradAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (counts, sizes) = (AvgPoolAttrs::of(attrs).count().dims(), AvgPoolGradAttrs::of(attrs).sizes().dims());
        gradient_type(inputs[0], &counts, &sizes, |_, sizes| ranges_of_windows(attrs, sizes, check_elements))
    },
    eval: |attrs, inputs| evaluate(AVG_POOL_GRAD.op(), attrs, inputs[0], &AvgPoolGradAttrs::of(attrs).sizes().sizes()),
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule {
        operands: &[0],
        result: true,
        form: SpatialForm::Pooling(|attrs, channels| {
            let sizes = AvgPoolGradAttrs::of(attrs).sizes().dims();
            let attrs = AvgPoolAttrs::of(attrs).with_channels(channels);
            AvgPoolAttrs::of(&attrs).with_sizes(&with_channels(&sizes, channels))
        }),
    }),
    samples: || avg_samples(true),
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let attrs = AvgPoolAttrs::of(it.attrs).alone();
            smallvec![Some(apply1(AVG_POOL.op(), &attrs, &[it.cotangent()]))]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.merged()),
        body: None,
    },
};

/// Returns the means of `count` windows along each spatial axis, which cover it evenly: window `i` is from `floor(i *
/// size / count)` to `ceil((i + 1) * size / count)`.
pub static ADAPTIVE_AVG_POOL: OpDef = OpDef {
    info: OpInfo { number: 437, name: "adaptive_avg_pool", attrs: AdaptiveAttrs::DECLARED },
    infer: |attrs, inputs| {
        mean_type(inputs[0], &AdaptiveAttrs::of(attrs).count().dims(), |_, sizes| {
            even_ranges(sizes, &AdaptiveAttrs::of(attrs).count().sizes(), check_elements)
        })
    },
    eval: |attrs, inputs| evaluate(ADAPTIVE_AVG_POOL.op(), attrs, inputs[0], &AdaptiveAttrs::of(attrs).count().sizes()),
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule {
        operands: &[0],
        result: true,
        form: SpatialForm::Pooling(|attrs, channels| {
            AdaptiveAttrs::attrs(&*with_channels(&AdaptiveAttrs::of(attrs).count().dims(), channels))
        }),
    }),
    samples: || {
        let of = |count: &[usize]| {
            Sample::new([SampleInput::f32(&[2, 2, 7, 5], -2.0, 2.0)]).attrs(AdaptiveAttrs::attrs(count))
        };
        vec![of(&[3, 5]), of(&[1, 1]), of(&[8, 2])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let count = AdaptiveAttrs::of(it.attrs).count();
            let attrs = AdaptiveGradAttrs::attrs(count, windowed(&it.inputs[0].dims(), &count.dims()));
            smallvec![Some(apply1(ADAPTIVE_AVG_POOL_GRAD.op(), &attrs, &[it.cotangent()]))]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.merged()),
        body: None,
    },
};

/// Computes the gradient of [`ADAPTIVE_AVG_POOL`] for an input of spatial sizes `sizes`.
pub static ADAPTIVE_AVG_POOL_GRAD: OpDef = OpDef {
    info: OpInfo { number: 438, name: "adaptive_avg_pool_grad", attrs: AdaptiveGradAttrs::DECLARED },
    infer: |attrs, inputs| {
        gradient_type(
            inputs[0],
            &AdaptiveAttrs::of(attrs).count().dims(),
            &AdaptiveGradAttrs::of(attrs).sizes().dims(),
            |_, sizes| even_ranges(sizes, &AdaptiveAttrs::of(attrs).count().sizes(), check_elements),
        )
    },
    eval: |attrs, inputs| {
        evaluate(ADAPTIVE_AVG_POOL_GRAD.op(), attrs, inputs[0], &AdaptiveGradAttrs::of(attrs).sizes().sizes())
    },
    effects: Effects::NONE,
    lowering: Lowering::Spatial(SpatialRule {
        operands: &[0],
        result: true,
        form: SpatialForm::Pooling(|attrs, channels| {
            let it = AdaptiveGradAttrs::of(attrs);
            let [count, sizes] = [it.count(), it.sizes()].map(|it| with_channels(&it.dims(), channels));
            AdaptiveGradAttrs::attrs(&*count, &*sizes)
        }),
    }),
    samples: || {
        let attrs = AdaptiveGradAttrs::attrs(&[3usize, 2][..], &[7usize, 5][..]);
        vec![Sample::new([SampleInput::f32(&[2, 2, 3, 2], -2.0, 2.0)]).attrs(attrs)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let attrs = AdaptiveAttrs::attrs(AdaptiveAttrs::of(it.attrs).count());
            smallvec![Some(apply1(ADAPTIVE_AVG_POOL.op(), &attrs, &[it.cotangent()]))]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.merged()),
        body: None,
    },
};

fn avg_samples(gradient: bool) -> Vec<Sample> {
    let of = |x: &[usize], count: &[usize], kernel: &[usize], stride: usize, padding: usize, count_pad: bool| {
        let all = |value: usize| Attr::from(&*value.per_axis(kernel.len()));
        let attrs = AvgPoolAttrs::attrs(kernel, all(stride), all(padding), all(padding), count, count_pad);
        let (shape, attrs) = match gradient {
            true => (pooled_shape(x, count), AvgPoolAttrs::of(&attrs).with_sizes(&x[2..].map_vec(|&it| Dim::new(it)))),
            false => (x.into(), attrs),
        };
        Sample::new([SampleInput::f32(&shape, -2.0, 2.0)]).attrs(attrs)
    };
    vec![
        of(&[2, 2, 6, 4], &[3, 2], &[2, 2], 2, 0, true),
        of(&[1, 2, 7, 5], &[4, 3], &[3, 3], 2, 1, true),
        of(&[1, 1, 7, 5], &[4, 3], &[3, 3], 2, 1, false),
        of(&[1, 1, 8], &[4], &[3], 2, 0, true),
    ]
}

impl AvgPoolAttrs<'_> {
    /// Returns the attributes for NHWC images: along the channel axis, windows are single elements.
    fn with_channels(self, channels: Dim) -> Attrs {
        let with = |list: Ints<'_>, channels: i64| Attr::from(&*with_channels(list.as_slice(), channels));
        let (one, none) = (|it| with(it, 1), |it| with(it, 0));
        let (kernel, stride) = (one(self.kernel()), one(self.stride()));
        let (before, after) = (none(self.before()), none(self.after()));
        let count = with_channels(&self.count().dims(), channels);
        Self::attrs(kernel, stride, before, after, &*count, self.count_pad())
    }

    /// Returns the attributes of [`AVG_POOL`] from the attributes of its gradient.
    fn alone(self) -> Attrs {
        Self::attrs(self.kernel(), self.stride(), self.before(), self.after(), self.count(), self.count_pad())
    }

    /// Returns the attributes of the gradient for an input of spatial sizes `sizes`.
    fn with_sizes(self, sizes: &[Dim]) -> Attrs {
        let (before, after) = (self.before(), self.after());
        AvgPoolGradAttrs::attrs(self.kernel(), self.stride(), before, after, self.count(), self.count_pad(), sizes)
    }
}

/// Returns the trailing sizes of a shape, along the axes of windows.
fn windowed<'a, S>(shape: &'a [S], entries: &[S]) -> &'a [S] {
    &shape[shape.len() - entries.len()..]
}

/// Infers the type of the means of `x` over `counts` windows. `check` is called with the rank of the operand and the
/// sizes along the axes of windows.
fn mean_type(x: &Type, counts: &[Dim], check: impl FnOnce(usize, &[usize]) -> Result<()>) -> Result<Types> {
    let dims = check_pooled(x, counts.len())?;
    check_means(dims.len(), windowed(&dims, counts), counts, check)?;
    Ok(smallvec![Type::new(x.dtype, pooled_shape(&dims, counts))])
}

/// Infers the type of the gradient for an input of spatial sizes `sizes` from the type `g` of the gradient of `counts`
/// means.
fn gradient_type(
    g: &Type,
    counts: &[Dim],
    sizes: &[Dim],
    check: impl FnOnce(usize, &[usize]) -> Result<()>,
) -> Result<Types> {
    let dims = check_pooled(g, counts.len())?;
    if counts.len() != sizes.len() || !may_equal(windowed(&dims, counts), counts) {
        return Err(Error::new(Code::Shape, format!("{g} holds no gradients of {counts:?} windows of {sizes:?}")));
    }
    check_means(dims.len(), sizes, counts, check)?;
    Ok(smallvec![Type::new(g.dtype, pooled_shape(&dims, sizes))])
}

/// Checks that each window has an element, if all sizes are known.
fn check_means(
    rank: usize,
    sizes: &[Dim],
    counts: &[Dim],
    check: impl FnOnce(usize, &[usize]) -> Result<()>,
) -> Result<()> {
    let known = |dims: &[Dim]| dims.iter().map(|it| it.as_const()).collect::<Option<Vec<usize>>>();
    if let (Some(sizes), Some(_)) = (known(sizes), known(counts)) {
        check(rank, &sizes)?;
    }
    Ok(())
}

/// A range of elements along one axis, and its factor of the window's divisor.
#[derive(Clone, Copy)]
struct Range {
    start: usize,
    end: usize,
    count: usize,
}

/// Returns the range of a window from its axis and its index.
type RangeOf<'a> = dyn Fn(usize, usize) -> Range + 'a;

/// Calls `made` with the number of windows along each axis of `sizes`, and their ranges.
///
/// # Errors
/// The errors of [`Window::counts`], of [`Window::check_elements`], and of `made`.
fn ranges_of_windows<T>(
    attrs: &Attrs,
    sizes: &[usize],
    made: impl FnOnce(&[usize], &RangeOf<'_>) -> Result<T>,
) -> Result<T> {
    let it = AvgPoolAttrs::of(attrs);
    let (kernel, counts, count_pad) = (it.kernel().sizes(), it.count().sizes(), it.count_pad());
    let window = Window {
        before: it.before().sizes(),
        after: it.after().sizes(),
        stride: it.stride().sizes(),
        ..Window::new(kernel.len())
    };
    window.check_entries(sizes.len(), &kernel)?;
    // An axis without elements has no windows of one element; the channel axis may be empty. In ceil mode a single
    // window is clipped to the elements and their padding.
    let fits = |axis: usize| match sizes[axis] {
        0 => (counts[axis], kernel[axis]) == (0, 1),
        _ => counts[axis] == 1,
    };
    let tested: Shape = (0..sizes.len()).map(|axis| if fits(axis) { kernel[axis] } else { sizes[axis] }).collect();
    window.counts(&tested.into_dims(), &kernel)?;
    window.check_counted(&sizes.into_dims(), &kernel, &counts.clone().into_dims())?;
    made(&counts, &|axis, number| {
        let size = sizes[axis] as isize;
        let start = (number * window.stride[axis]) as isize - window.before[axis] as isize;
        let end = (start + kernel[axis] as isize).min(size.saturating_add(window.after[axis] as isize));
        let (first, last) = (start.clamp(0, size) as usize, end.clamp(0, size) as usize);
        let count = if count_pad { (end - start).max(1) as usize } else { last - first };
        Range { start: first, end: last, count }
    })
}

/// Applies [`ranges_of_windows`] to `counts` windows that cover axes of `sizes` evenly.
fn even_ranges<T>(
    sizes: &[usize],
    counts: &[usize],
    made: impl FnOnce(&[usize], &RangeOf<'_>) -> Result<T>,
) -> Result<T> {
    made(counts, &|axis, number| {
        let [size, count, number] = [sizes[axis], counts[axis], number].map(|it| it as u128);
        let (start, end) = ((number * size / count) as usize, ((number + 1) * size).div_ceil(count) as usize);
        Range { start, end, count: end - start }
    })
}

/// Checks that each window has an element. The ranges of windows ascend, so checking the first and the last one
/// suffices.
///
/// # Errors
/// [`Code::Argument`] if a window is empty.
fn check_elements(counts: &[usize], range: &RangeOf<'_>) -> Result<()> {
    let is_empty = |axis: usize| {
        let ends = counts[axis].checked_sub(1).map(|last| [0, last].map(|number| range(axis, number)));
        ends.iter().flatten().any(|it| it.start >= it.end)
    };
    match (0..counts.len()).any(is_empty) {
        true => {
            Err(Error::new(Code::Argument, "a window has no element").help("padding is at most half of the window"))
        }
        false => Ok(()),
    }
}

/// Means over ranges along each of four axes.
struct Means {
    input: Spatial,
    ranges: [Vec<Range>; 4],
    /// The axis of a window's rows: the last one, or the one before it in NHWC order.
    row_axis: usize,
}

impl Means {
    /// Creates the means for an operand or a gradient of this rank, with windows along axes of `sizes`.
    fn of_windows(attrs: &Attrs, rank: usize, sizes: &[usize]) -> Result<Self> {
        ranges_of_windows(attrs, sizes, |counts, range| Self::new(rank, sizes, counts, range))
    }

    /// Creates the means like [`of_windows`](Self::of_windows), for windows that cover the axes evenly.
    fn adaptive(rank: usize, sizes: &[usize], counts: &[usize]) -> Result<Self> {
        even_ranges(sizes, counts, |counts, range| Self::new(rank, sizes, counts, range))
    }

    fn new(rank: usize, sizes: &[usize], counts: &[usize], range: &RangeOf<'_>) -> Result<Self> {
        check_elements(counts, range)?;
        let missing = 4 - sizes.len();
        let ranges = std::array::from_fn(|axis| match axis.checked_sub(missing) {
            Some(axis) => collected((0..counts[axis]).map(|window| range(axis, window))),
            None => vec![Range { start: 0, end: 1, count: 1 }],
        });
        let row_axis = if rank == sizes.len() + 1 { 2 } else { 3 };
        Ok(Self { input: spatial(sizes, 1), ranges, row_axis })
    }

    /// Visits each window of one channel plane with its index, its ranges, and its divisor.
    fn windows(&self, mut visit: impl FnMut(usize, [Range; 4], f64)) {
        let mut number = 0;
        for &range0 in &self.ranges[0] {
            for &range1 in &self.ranges[1] {
                for &range2 in &self.ranges[2] {
                    for &range3 in &self.ranges[3] {
                        let window = [range0, range1, range2, range3];
                        visit(number, window, window.iter().map(|it| it.count).product::<usize>() as f64);
                        number += 1;
                    }
                }
            }
        }
    }

    /// Iterates over the elements of each row of a window in a channel plane.
    fn rows(&self, window: [Range; 4]) -> impl Iterator<Item = StepBy<std::ops::Range<usize>>> + '_ {
        let [_, depth, height, width] = self.input;
        let (step, across, stride) = if self.row_axis == 2 { (width, 3, 1) } else { (1, 2, width) };
        let (line, across) = (window[self.row_axis], window[across]);
        let along = |it: Range| it.start..it.end;
        let planes = along(window[0]).flat_map(move |at0| along(window[1]).map(move |at1| at0 * depth + at1));
        planes.flat_map(move |plane| {
            along(across).map(move |at| {
                let first = plane * height * width + at * stride;
                (first + line.start * step..first + (line.end - 1) * step + 1).step_by(step)
            })
        })
    }

    fn sizes(&self) -> (usize, usize) {
        (self.input.iter().product(), self.ranges.iter().map(Vec::len).product())
    }

    /// Computes the means of one channel plane.
    fn forward(&self, from: &[f64], to: &mut [f64]) {
        self.windows(|number, window, count| {
            let sum: f64 = self.rows(window).map(|line| line.map(|at| from[at]).sum::<f64>()).sum();
            to[number] = sum / count;
        });
    }

    /// Computes the gradients of one channel plane's elements from the gradients of the means.
    fn backward(&self, from: &[f64], to: &mut [f64]) {
        to.fill(0.0);
        self.windows(|number, window, count| {
            let share = from[number] / count;
            self.rows(window).flatten().for_each(|at| to[at] += share);
        });
    }
}

/// An op of means, or of their gradients, on channel planes of f64.
pub struct ChannelMeans {
    means: Means,
    is_gradient: bool,
}

impl ChannelMeans {
    /// Returns the numbers of elements of a channel plane of the operand and of the result.
    pub fn sizes(&self) -> [usize; 2] {
        let (plane, windows) = self.means.sizes();
        if self.is_gradient { [windows, plane] } else { [plane, windows] }
    }

    /// Computes a channel plane.
    pub fn run(&self, from: &[f64], to: &mut [f64]) {
        if self.is_gradient { self.means.backward(from, to) } else { self.means.forward(from, to) }
    }

    /// Computes all channel planes.
    fn all(&self, x: &Array, shape: &[usize]) -> Result<Arrays> {
        let [taken, given] = self.sizes();
        let mut out = filled(0.0, shape.iter().product());
        let from = wide_floats(x)?;
        for (from, to) in from.chunks(taken.max(1)).zip(out.chunks_mut(given.max(1))) {
            self.run(from, to);
        }
        Ok(smallvec![narrow_floats(&out, shape, x.dtype())])
    }
}

/// Returns the computation of [`AVG_POOL`], [`ADAPTIVE_AVG_POOL`] or one of their gradients for an operand of this
/// shape; `None` for other ops.
pub fn channel_means(op: Op, attrs: &Attrs, operand: &[usize]) -> Option<Result<ChannelMeans>> {
    let rank = operand.len();
    let is = |def: &'static OpDef| def.op() == op;
    let (is_gradient, means) = match op {
        _ if is(&AVG_POOL) => {
            (false, Means::of_windows(attrs, rank, windowed(operand, &AvgPoolAttrs::of(attrs).count().sizes())))
        }
        _ if is(&AVG_POOL_GRAD) => (true, Means::of_windows(attrs, rank, &AvgPoolGradAttrs::of(attrs).sizes().sizes())),
        _ if is(&ADAPTIVE_AVG_POOL) => {
            let count = AdaptiveAttrs::of(attrs).count().sizes();
            (false, Means::adaptive(rank, windowed(operand, &count), &count))
        }
        _ if is(&ADAPTIVE_AVG_POOL_GRAD) => {
            let sizes = AdaptiveGradAttrs::of(attrs).sizes().sizes();
            (true, Means::adaptive(rank, &sizes, &AdaptiveAttrs::of(attrs).count().sizes()))
        }
        _ => return None,
    };
    Some(means.map(|means| ChannelMeans { means, is_gradient }))
}

/// Evaluates one of these ops; `sizes` are the result's sizes along the axes of windows.
fn evaluate(op: Op, attrs: &Attrs, x: &Array, sizes: &[usize]) -> Result<Arrays> {
    let planes = channel_means(op, attrs, x.shape()).expect("it is an op of means")?;
    planes.all(x, &pooled_shape(x.shape(), sizes))
}

/// Returns the mean of each window of `x` `[n, c, spatial..]`.
///
/// # Panics
/// Panics in the cases of [`max_pool`](crate::ops::max_pool::max_pool), and raises [`Code::Argument`] for a dilation,
/// which is not supported.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]]]];
/// let options = ops::PoolOptions::new(2, 2).stride(1);
/// assert_eq!(ops::avg_pool(&x, &options).to_vec::<f32>(), [3., 4., 6., 7.]);
/// ```
#[track_caller]
pub fn avg_pool(x: impl AsTensor, options: &PoolOptions) -> Tensor {
    let x = x.as_tensor();
    or_poison!(ranked("avg_pool", &x, options.kernel.len()));
    if options.dilation.iter().any(|&it| it != 1) {
        let error = Error::new(Code::Argument, "windows of means have no dilation");
        return refused(named("avg_pool", &[&x], error));
    }
    propagate_poison!(x);
    let (_, counts) = or_poison!(options.window(&x.dims()[2..]).map_err(|it| named("avg_pool", &[&x], it)));
    let PoolOptions { kernel, stride, padding, count_include_pad, .. } = options;
    let attrs = AvgPoolAttrs::attrs(&**kernel, &**stride, &**padding, &**padding, &*counts, *count_include_pad);
    apply1(AVG_POOL.op(), &attrs, &[&x])
}

/// Applies [`avg_pool`] over two spatial axes, with adjacent windows: `[n, c, height, width]`.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]]]];
/// assert_eq!(ops::avg_pool2d(&x, 3).to_vec::<f32>(), [5.]);
/// ```
#[track_caller]
pub fn avg_pool2d(x: impl AsTensor, kernel: impl PerAxis) -> Tensor {
    let _called = called("avg_pool2d");
    avg_pool(x, &PoolOptions::new(2, kernel))
}

/// Returns the means of `output_size` windows along each spatial axis of `[n, c, spatial..]`. The windows cover the
/// axis evenly: window `i` is from `floor(i * size / count)` to `ceil((i + 1) * size / count)`.
///
/// # Panics
/// Raises [`Code::Shape`] unless there is a size for each of one to three spatial axes, and [`Code::DType`] unless `x`
/// is of floats.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::adaptive_avg_pool(tensor![[[1., 2., 3.]]], &[2]).to_vec::<f32>(), [1.5, 2.5]);
/// ```
#[track_caller]
pub fn adaptive_avg_pool(x: impl AsTensor, output_size: &[usize]) -> Tensor {
    let x = x.as_tensor();
    or_poison!(ranked("adaptive_avg_pool", &x, output_size.len()));
    propagate_poison!(x);
    apply1(ADAPTIVE_AVG_POOL.op(), &AdaptiveAttrs::attrs(output_size), &[&x])
}

/// Applies [`adaptive_avg_pool`] over two spatial axes, with one size or one for each.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]]]];
/// assert_eq!(ops::adaptive_avg_pool2d(&x, [1, 3]).to_vec::<f32>(), [4., 5., 6.]);
/// ```
#[track_caller]
pub fn adaptive_avg_pool2d(x: impl AsTensor, output_size: impl PerAxis) -> Tensor {
    let _called = called("adaptive_avg_pool2d");
    adaptive_avg_pool(x, &output_size.per_axis(2))
}
