//! Pooling over spatial axes: `max_pool`, `avg_pool`, `adaptive_avg_pool`, and their gradients.

use super::axis::{const_shape, named};
use super::conv::ranked;
use super::host::{narrow_floats, wide_floats};
use super::window::{PerAxis, Spatial, Window, spatial};
use super::{Derivative, Lowering, OpDef, Sample, SampleInput, Types};
use crate::error::{Code, Error, OrRaise, Result};
use crate::tensor::{AsTensor, Attr, Attrs, OpInfo, Shape, Tensor, Type, apply1};
use smallvec::smallvec;

/// The largest element of each window of `[n, c, spatial..]`; nan if one is nan.
pub static MAX_POOL: OpDef = OpDef {
    info: OpInfo { number: 430, name: "max_pool", attrs: &["kernel", "stride", "dilation", "before", "after"] },
    infer: |attrs, inputs| Ok(smallvec![Type::of(inputs[0].dtype, &Pooled::new(attrs, inputs[0])?.output_shape)]),
    eval: |attrs, inputs| {
        let x = inputs[0];
        let (pooled, from) = (Pooled::new(attrs, &x.ty())?, wide_floats(x));
        let out: Vec<f64> = pooled.largest(&from).into_iter().map(|at| from[at]).collect();
        Ok(smallvec![narrow_floats(&out, &pooled.output_shape, x.dtype())])
    },
    derivative: Derivative::Rule(|it| {
        smallvec![Some(apply1(MAX_POOL_GRAD.op(), it.attrs, &[&it.inputs[0], it.cotangent()]))]
    }),
    lowering: Lowering::Library,
    samples: || max_samples(|x, _| vec![x]),
};

/// The gradient of [`MAX_POOL`]: the second operand, of the shape of its result, added where
/// the largest elements of the first one stand (the first of equal ones).
pub static MAX_POOL_GRAD: OpDef = OpDef {
    info: OpInfo { number: 431, name: "max_pool_grad", attrs: &["kernel", "stride", "dilation", "before", "after"] },
    infer: |attrs, inputs| {
        let pooled = Pooled::new(attrs, inputs[0])?;
        holds_shape(inputs[1], &pooled.output_shape)?;
        Ok(smallvec![inputs[0].clone()])
    },
    eval: |attrs, inputs| {
        let (x, g) = (inputs[0], wide_floats(inputs[1]));
        let (pooled, from) = (Pooled::new(attrs, &x.ty())?, wide_floats(x));
        let mut out = vec![0.0; from.len()];
        pooled.largest(&from).into_iter().zip(g).for_each(|(at, g)| out[at] += g);
        Ok(smallvec![narrow_floats(&out, x.shape(), x.dtype())])
    },
    derivative: Derivative::Rule(|it| {
        smallvec![None, Some(apply1(MAX_POOL_TAKE.op(), it.attrs, &[&it.inputs[0], it.cotangent()]))]
    }),
    lowering: Lowering::Library,
    samples: || max_samples(|x, y| vec![x, y]),
};

/// The elements of the second operand where the largest ones of each window of the first
/// stand; both have one shape.
pub static MAX_POOL_TAKE: OpDef = OpDef {
    info: OpInfo { number: 432, name: "max_pool_take", attrs: &["kernel", "stride", "dilation", "before", "after"] },
    infer: |attrs, inputs| {
        holds_shape(inputs[1], &const_shape(inputs[0])?)?;
        Ok(smallvec![Type::of(inputs[0].dtype, &Pooled::new(attrs, inputs[0])?.output_shape)])
    },
    eval: |attrs, inputs| {
        let (x, h) = (inputs[0], wide_floats(inputs[1]));
        let pooled = Pooled::new(attrs, &x.ty())?;
        let out: Vec<f64> = pooled.largest(&wide_floats(x)).into_iter().map(|at| h[at]).collect();
        Ok(smallvec![narrow_floats(&out, &pooled.output_shape, x.dtype())])
    },
    derivative: Derivative::Rule(|it| {
        smallvec![None, Some(apply1(MAX_POOL_GRAD.op(), it.attrs, &[&it.inputs[0], it.cotangent()]))]
    }),
    lowering: Lowering::Library,
    samples: || max_samples(|x, _| vec![x.clone(), x]),
};

/// The mean of each window of `[n, c, spatial..]`. `count` windows lie along each axis; they
/// are cut off past the padding. The divisor counts padding if `count_pad` says so.
pub static AVG_POOL: OpDef = OpDef {
    info: OpInfo {
        number: 435,
        name: "avg_pool",
        attrs: &["kernel", "stride", "before", "after", "count", "count_pad"],
    },
    infer: |attrs, inputs| mean_type(inputs[0], &attrs.sizes(4)),
    eval: |attrs, inputs| {
        let means = Means::of_windows(attrs, &inputs[0].shape()[2..])?;
        let shape = pooled_shape(inputs[0].shape(), &attrs.sizes(4));
        Ok(smallvec![narrow_floats(&means.forward(&wide_floats(inputs[0])), &shape, inputs[0].dtype())])
    },
    derivative: Derivative::Rule(|it| {
        smallvec![Some(apply1(AVG_POOL_GRAD.op(), &avg_attrs(it.attrs, &it.inputs[0].shape()[2..]), &[it.cotangent()]))]
    }),
    lowering: Lowering::Library,
    samples: || avg_samples(false),
};

/// The gradient of [`AVG_POOL`] for an input of spatial sizes `sizes`.
pub static AVG_POOL_GRAD: OpDef = OpDef {
    info: OpInfo {
        number: 436,
        name: "avg_pool_grad",
        attrs: &["kernel", "stride", "before", "after", "count", "count_pad", "sizes"],
    },
    infer: |attrs, inputs| mean_type(inputs[0], &attrs.sizes(6)),
    eval: |attrs, inputs| {
        let means = Means::of_windows(attrs, &attrs.sizes(6))?;
        let shape = pooled_shape(inputs[0].shape(), &attrs.sizes(6));
        Ok(smallvec![narrow_floats(&means.backward(&wide_floats(inputs[0])), &shape, inputs[0].dtype())])
    },
    derivative: Derivative::Rule(|it| {
        let attrs = Attrs::new(it.attrs.as_slice()[..6].iter().cloned());
        smallvec![Some(apply1(AVG_POOL.op(), &attrs, &[it.cotangent()]))]
    }),
    lowering: Lowering::Library,
    samples: || avg_samples(true),
};

/// The means of `count` windows along each spatial axis that cover it evenly: window `i` goes
/// from `floor(i * size / count)` to `ceil((i + 1) * size / count)`.
pub static ADAPTIVE_AVG_POOL: OpDef = OpDef {
    info: OpInfo { number: 437, name: "adaptive_avg_pool", attrs: &["count"] },
    infer: |attrs, inputs| mean_type(inputs[0], &attrs.sizes(0)),
    eval: |attrs, inputs| {
        let x = inputs[0];
        let means = Means::adaptive(&x.shape()[2..], &attrs.sizes(0))?;
        let shape = pooled_shape(x.shape(), &attrs.sizes(0));
        Ok(smallvec![narrow_floats(&means.forward(&wide_floats(x)), &shape, x.dtype())])
    },
    derivative: Derivative::Rule(|it| {
        let attrs = Attrs::new([it.attrs.as_slice()[0].clone(), (&it.inputs[0].shape()[2..]).into()]);
        smallvec![Some(apply1(ADAPTIVE_AVG_POOL_GRAD.op(), &attrs, &[it.cotangent()]))]
    }),
    lowering: Lowering::Library,
    samples: || {
        let of = |count: &[usize]| {
            Sample::new([SampleInput::f32(&[2, 2, 7, 5], -2.0, 2.0)]).attrs(Attrs::new([count.into()]))
        };
        vec![of(&[3, 5]), of(&[1, 1]), of(&[8, 2])]
    },
};

/// The gradient of [`ADAPTIVE_AVG_POOL`] for an input of spatial sizes `sizes`.
pub static ADAPTIVE_AVG_POOL_GRAD: OpDef = OpDef {
    info: OpInfo { number: 438, name: "adaptive_avg_pool_grad", attrs: &["count", "sizes"] },
    infer: |attrs, inputs| mean_type(inputs[0], &attrs.sizes(1)),
    eval: |attrs, inputs| {
        let g = inputs[0];
        let means = Means::adaptive(&attrs.sizes(1), &attrs.sizes(0))?;
        let shape = pooled_shape(g.shape(), &attrs.sizes(1));
        Ok(smallvec![narrow_floats(&means.backward(&wide_floats(g)), &shape, g.dtype())])
    },
    derivative: Derivative::Rule(|it| {
        let attrs = Attrs::new(it.attrs.as_slice()[..1].iter().cloned());
        smallvec![Some(apply1(ADAPTIVE_AVG_POOL.op(), &attrs, &[it.cotangent()]))]
    }),
    lowering: Lowering::Library,
    samples: || {
        let attrs = Attrs::new([(&[3usize, 2][..]).into(), (&[7usize, 5][..]).into()]);
        vec![Sample::new([SampleInput::f32(&[2, 2, 3, 2], -2.0, 2.0)]).attrs(attrs)]
    },
};

fn max_attrs(kernel: &[usize], window: &Window) -> Attrs {
    let lists = [kernel, &window.stride, &window.dilation, &window.before, &window.after];
    Attrs::new(lists.into_iter().map(Attr::from))
}

fn max_samples(operands: fn(SampleInput, SampleInput) -> Vec<SampleInput>) -> Vec<Sample> {
    let of = |x: &[usize], y: &[usize], kernel: &[usize], stride: usize, padding: usize| {
        let all = |value: usize| value.per_axis(kernel.len());
        let window = Window { stride: all(stride), before: all(padding), after: all(padding), ..Window::new(kernel.len()) };
        let (x, y) = (SampleInput::f32(x, -2.0, 2.0), SampleInput::f32(y, -2.0, 2.0));
        Sample::new(operands(x, y)).attrs(max_attrs(kernel, &window))
    };
    vec![
        of(&[2, 2, 6, 4], &[2, 2, 3, 2], &[2, 2], 2, 0),
        of(&[1, 2, 7, 5], &[1, 2, 4, 3], &[3, 3], 2, 1),
        of(&[2, 1, 5], &[2, 1, 4], &[2], 1, 0),
    ]
}

fn avg_samples(gradient: bool) -> Vec<Sample> {
    let of = |x: &[usize], count: &[usize], kernel: &[usize], stride: usize, padding: usize, count_pad: bool| {
        let all = |value: usize| Attr::from(&*value.per_axis(kernel.len()));
        let attrs = [kernel.into(), all(stride), all(padding), all(padding), count.into(), count_pad.into()];
        let (shape, sizes) = match gradient {
            true => (pooled_shape(x, count), Some(Attr::from(&x[2..]))),
            false => (x.into(), None),
        };
        Sample::new([SampleInput::f32(&shape, -2.0, 2.0)]).attrs(Attrs::new(attrs.into_iter().chain(sizes)))
    };
    vec![
        of(&[2, 2, 6, 4], &[3, 2], &[2, 2], 2, 0, true),
        of(&[1, 2, 7, 5], &[4, 3], &[3, 3], 2, 1, true),
        of(&[1, 1, 7, 5], &[4, 3], &[3, 3], 2, 1, false),
        of(&[1, 1, 8], &[4], &[3], 2, 0, true),
    ]
}

fn avg_attrs(attrs: &Attrs, sizes: &[usize]) -> Attrs {
    Attrs::new(attrs.as_slice().iter().cloned().chain([sizes.into()]))
}

fn holds_shape(ty: &Type, shape: &[usize]) -> Result<()> {
    if *const_shape(ty)? == *shape {
        return Ok(());
    }
    Err(Error::new(Code::Shape, format!("{ty} does not have the shape {shape:?}")))
}

/// A shape with other spatial sizes.
fn pooled_shape(shape: &[usize], sizes: &[usize]) -> Shape {
    shape[..2].iter().chain(sizes).copied().collect()
}

fn check_pooled(x: &Type, rank: usize) -> Result<Shape> {
    let shape = const_shape(x)?;
    if shape.len() != rank + 2 || rank == 0 || rank > 3 {
        return Err(Error::new(Code::Shape, format!("{x} does not have a batch, a channel and {rank} spatial axes")));
    }
    if !x.dtype.is_float() {
        return Err(Error::new(Code::DType, format!("pooling is of floats, not {}", x.dtype)));
    }
    Ok(shape)
}

fn mean_type(x: &Type, sizes: &[usize]) -> Result<Types> {
    let shape = check_pooled(x, sizes.len())?;
    Ok(smallvec![Type::of(x.dtype, &pooled_shape(&shape, sizes))])
}

/// The windows of a [`MAX_POOL`], with three spatial axes.
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
        let (kernel, window) = (attrs.sizes(0), Window::of(attrs, 1));
        let shape = check_pooled(x, kernel.len())?;
        let counts = window.counts(&shape[2..], &kernel)?;
        for axis in 0..kernel.len() {
            let reach = window.dilation[axis] * (kernel[axis] - 1) + 1;
            if window.before[axis] > reach / 2 || shape[axis + 2] == 0 {
                let message = format!("padding {:?} leaves windows of {kernel:?} without an element", window.before);
                return Err(Error::new(Code::Argument, message).help("padding is at most half of the window"));
            }
        }
        Ok(Self {
            output_shape: pooled_shape(&shape, &counts),
            planes: shape[0] * shape[1],
            input: spatial(&shape[2..], 1),
            kernel: spatial(&kernel, 1),
            output: spatial(&counts, 1),
            stride: spatial(&window.stride, 1),
            dilation: spatial(&window.dilation, 1),
            before: spatial(&window.before, 0),
        })
    }

    /// Where the largest element of each window stands: the first of equal ones, or a nan.
    fn largest(&self, x: &[f64]) -> Vec<usize> {
        let plane: usize = self.input.iter().product();
        let windows: usize = self.output.iter().product();
        let mut out = Vec::with_capacity(self.planes * windows);
        for base in (0..self.planes).map(|it| it * plane) {
            for window in 0..windows {
                let (rest, at2) = (window / self.output[2], window % self.output[2]);
                let at = [rest / self.output[1], rest % self.output[1], at2];
                out.push(base + self.largest_of(&x[base..base + plane], at));
            }
        }
        out
    }

    fn largest_of(&self, plane: &[f64], window: Spatial) -> usize {
        let mut best = None;
        for at0 in self.taps(0, window[0]) {
            for at1 in self.taps(1, window[1]) {
                for at2 in self.taps(2, window[2]) {
                    let at = (at0 * self.input[1] + at1) * self.input[2] + at2;
                    let above = best.is_none_or(|it: usize| {
                        plane[at] > plane[it] || (plane[at].is_nan() && !plane[it].is_nan())
                    });
                    if above {
                        best = Some(at);
                    }
                }
            }
        }
        best.expect("padding is at most half of the window, so that each has an element")
    }

    /// The elements under a window along one axis.
    fn taps(&self, axis: usize, window: usize) -> impl Iterator<Item = usize> + '_ {
        let place = move |tap: usize| {
            (window * self.stride[axis] + tap * self.dilation[axis]).checked_sub(self.before[axis])
        };
        (0..self.kernel[axis]).filter_map(place).filter(move |&at| at < self.input[axis])
    }
}

/// A range of elements along one axis, and what it counts in the divisor.
#[derive(Clone, Copy)]
struct Range {
    start: usize,
    end: usize,
    count: usize,
}

/// Means over ranges along each of three spatial axes.
struct Means {
    input: Spatial,
    ranges: [Vec<Range>; 3],
}

impl Means {
    fn of_windows(attrs: &Attrs, sizes: &[usize]) -> Result<Self> {
        let (kernel, stride, before, after) = (attrs.sizes(0), attrs.sizes(1), attrs.sizes(2), attrs.sizes(3));
        let (counts, count_pad) = (attrs.sizes(4), attrs.bool(5));
        Self::new(sizes, |axis| {
            let size = sizes[axis] as isize;
            let range = |window: usize| {
                let start = (window * stride[axis]) as isize - before[axis] as isize;
                let end = (start + kernel[axis] as isize).min(size + after[axis] as isize);
                let (first, last) = (start.clamp(0, size) as usize, end.clamp(0, size) as usize);
                let count = if count_pad { (end - start).max(1) as usize } else { last - first };
                Range { start: first, end: last, count }
            };
            (0..counts[axis]).map(range).collect()
        })
    }

    fn adaptive(sizes: &[usize], counts: &[usize]) -> Result<Self> {
        Self::new(sizes, |axis| {
            let (size, count) = (sizes[axis], counts[axis]);
            let range = |window: usize| {
                let (start, end) = (window * size / count, ((window + 1) * size).div_ceil(count));
                Range { start, end, count: end - start }
            };
            (0..count).map(range).collect()
        })
    }

    fn new(sizes: &[usize], ranges: impl Fn(usize) -> Vec<Range>) -> Result<Self> {
        let missing = 3 - sizes.len();
        let ranges = std::array::from_fn(|axis| match axis.checked_sub(missing) {
            Some(axis) => ranges(axis),
            None => vec![Range { start: 0, end: 1, count: 1 }],
        });
        if ranges.iter().flatten().any(|it| it.start >= it.end) {
            return Err(Error::new(Code::Argument, "a window has no element").help("padding is at most half of the window"));
        }
        Ok(Self { input: spatial(sizes, 1), ranges })
    }

    /// Visits each window of one plane with its number, its ranges, and one over its divisor.
    fn windows(&self, mut visit: impl FnMut(usize, [Range; 3], f64)) {
        let mut number = 0;
        for &range0 in &self.ranges[0] {
            for &range1 in &self.ranges[1] {
                for &range2 in &self.ranges[2] {
                    visit(number, [range0, range1, range2], (range0.count * range1.count * range2.count) as f64);
                    number += 1;
                }
            }
        }
    }

    /// The lines of a plane that lie under a window.
    fn lines(&self, window: [Range; 3]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let [range0, range1, range2] = window;
        (range0.start..range0.end).flat_map(move |at0| {
            (range1.start..range1.end).map(move |at1| {
                let line = (at0 * self.input[1] + at1) * self.input[2];
                line + range2.start..line + range2.end
            })
        })
    }

    fn sizes(&self) -> (usize, usize) {
        (self.input.iter().product(), self.ranges.iter().map(Vec::len).product())
    }

    fn forward(&self, x: &[f64]) -> Vec<f64> {
        let (plane, windows) = self.sizes();
        let mut out = vec![0.0; x.len() / plane * windows];
        for (to, from) in out.chunks_mut(windows).zip(x.chunks(plane)) {
            self.windows(|number, window, count| {
                let sum: f64 = self.lines(window).map(|line| from[line].iter().sum::<f64>()).sum();
                to[number] = sum / count;
            });
        }
        out
    }

    fn backward(&self, g: &[f64]) -> Vec<f64> {
        let (plane, windows) = self.sizes();
        let mut out = vec![0.0; g.len().checked_div(windows).unwrap_or(0) * plane];
        for (to, from) in out.chunks_mut(plane).zip(g.chunks(windows.max(1))) {
            self.windows(|number, window, count| {
                let share = from[number] / count;
                self.lines(window).for_each(|line| to[line].iter_mut().for_each(|it| *it += share));
            });
        }
        out
    }
}

/// How a pooling is laid: kernel, stride, padding, and whether a last window may hang over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    /// Sizes of the window, by spatial axis.
    pub kernel: Shape,
    /// From one window to the next, by spatial axis.
    pub stride: Shape,
    /// Places on both sides that count as absent, by spatial axis.
    pub padding: Shape,
    /// From one tap to the next, by spatial axis; of `max_pool` only.
    pub dilation: Shape,
    /// Whether a last window may hang over the end.
    pub ceil_mode: bool,
    /// Whether the mean counts padding in its divisor.
    pub count_include_pad: bool,
}

impl PoolOptions {
    /// Windows of `kernel` side by side over `rank` spatial axes.
    pub fn new(rank: usize, kernel: impl PerAxis) -> Self {
        let kernel = kernel.per_axis(rank);
        Self {
            stride: kernel.clone(),
            padding: 0.per_axis(rank),
            dilation: 1.per_axis(rank),
            ceil_mode: false,
            count_include_pad: true,
            kernel,
        }
    }

    /// With a stride: one number, or one for each spatial axis.
    pub fn stride(mut self, stride: impl PerAxis) -> Self {
        self.stride = stride.per_axis(self.kernel.len());
        self
    }

    /// With padding on both sides: one number, or one for each spatial axis.
    pub fn padding(mut self, padding: impl PerAxis) -> Self {
        self.padding = padding.per_axis(self.kernel.len());
        self
    }

    /// With a dilation: one number, or one for each spatial axis.
    pub fn dilation(mut self, dilation: impl PerAxis) -> Self {
        self.dilation = dilation.per_axis(self.kernel.len());
        self
    }

    /// With a last window that may hang over the end.
    pub fn ceil_mode(mut self, yes: bool) -> Self {
        self.ceil_mode = yes;
        self
    }

    /// With or without padding in the divisor of means.
    pub fn count_include_pad(mut self, yes: bool) -> Self {
        self.count_include_pad = yes;
        self
    }

    /// The windows over `sizes`: in ceil mode padded so that a last one that starts on an
    /// element, or on the padding before, fits.
    fn window(&self, sizes: &[usize]) -> Result<(Window, Shape)> {
        let mut window = Window {
            stride: self.stride.clone(),
            dilation: self.dilation.clone(),
            before: self.padding.clone(),
            after: self.padding.clone(),
        };
        let counts = window.counts(sizes, &self.kernel)?;
        if !self.ceil_mode {
            return Ok((window, counts));
        }
        for axis in 0..sizes.len() {
            let (stride, before) = (self.stride[axis], self.padding[axis]);
            let reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
            let covered = (counts[axis] - 1) * stride + reach;
            let padded = sizes[axis] + 2 * before;
            if covered < padded && counts[axis] * stride < sizes[axis] + before {
                window.after[axis] += covered + stride - padded;
            }
        }
        let counts = window.counts(sizes, &self.kernel)?;
        Ok((window, counts))
    }
}

/// The largest element of each window of `x` `[n, c, spatial..]`; nan if one is nan.
///
/// # Panics
/// Raises [`Code::Shape`] when a window does not fit, [`Code::Argument`] when padding is more
/// than half of a window, [`Code::DType`] unless `x` is of floats.
#[track_caller]
pub fn max_pool(x: impl AsTensor, options: &PoolOptions) -> Tensor {
    let x = x.as_tensor();
    ranked("max_pool", &x, options.kernel.len());
    let (window, _) = options.window(&x.shape()[2..]).map_err(|it| named("max_pool", &[&x], it)).or_raise();
    apply1(MAX_POOL.op(), &max_attrs(&options.kernel, &window), &[&x])
}

/// [`max_pool`] over two spatial axes, windows side by side: `[n, c, height, width]`.
#[track_caller]
pub fn max_pool2d(x: impl AsTensor, kernel: impl PerAxis) -> Tensor {
    max_pool(x, &PoolOptions::new(2, kernel))
}

/// The mean of each window of `x` `[n, c, spatial..]`.
///
/// # Panics
/// As [`max_pool`], and [`Code::Argument`] for a dilation, which means do not have.
#[track_caller]
pub fn avg_pool(x: impl AsTensor, options: &PoolOptions) -> Tensor {
    let x = x.as_tensor();
    ranked("avg_pool", &x, options.kernel.len());
    if options.dilation.iter().any(|&it| it != 1) {
        let error = Error::new(Code::Argument, "windows of means have no dilation");
        Err(named("avg_pool", &[&x], error)).or_raise()
    }
    let (_, counts) = options.window(&x.shape()[2..]).map_err(|it| named("avg_pool", &[&x], it)).or_raise();
    let lists = [&options.kernel, &options.stride, &options.padding, &options.padding, &counts];
    let lists = lists.into_iter().map(|it| Attr::from(&**it));
    apply1(AVG_POOL.op(), &Attrs::new(lists.chain([options.count_include_pad.into()])), &[&x])
}

/// [`avg_pool`] over two spatial axes, windows side by side: `[n, c, height, width]`.
#[track_caller]
pub fn avg_pool2d(x: impl AsTensor, kernel: impl PerAxis) -> Tensor {
    avg_pool(x, &PoolOptions::new(2, kernel))
}

/// The means of `output_size` windows that cover the last two axes of `[n, c, height, width]`
/// evenly.
///
/// # Panics
/// Raises [`Code::Shape`] for another rank, [`Code::DType`] unless `x` is of floats.
#[track_caller]
pub fn adaptive_avg_pool2d(x: impl AsTensor, output_size: impl PerAxis) -> Tensor {
    let x = x.as_tensor();
    ranked("adaptive_avg_pool2d", &x, 2);
    apply1(ADAPTIVE_AVG_POOL.op(), &Attrs::new([(&*output_size.per_axis(2)).into()]), &[&x])
}
