//! Tests convolutions and their gradients bit by bit against the specified order of sums.

mod brgemm;
mod engines;
mod epilogues;
mod winograd;

use crate::library::EagerOp;
use ms_ir::Precision;
use ms_ir::data::{Array, Attr, Attrs, DType, Element, Scalar, Type};
use ms_ir::with_element;
use ms_ops::ops::{self, OpDef};
use ms_x64::Isa;
use ms_x64::gemm::{Arithmetic, Engine};
use ms_x64::threads;

/// A convolution over two spatial axes.
struct Case {
    /// Images, channels, height, width.
    x: [usize; 4],
    /// Output channels, channels of a group, height and width of the kernel.
    w: [usize; 4],
    stride: [usize; 2],
    dilation: [usize; 2],
    before: [usize; 2],
    after: [usize; 2],
    groups: usize,
}

const PLAIN: Case =
    Case { x: [1; 4], w: [1; 4], stride: [1; 2], dilation: [1; 2], before: [0; 2], after: [0; 2], groups: 1 };

/// The factors of the products of a sum: of the right operand, and of the left one.
type Terms = Vec<(f64, f64)>;

/// Sums products in some order.
type Sum<'a> = &'a dyn Fn(&Terms) -> f64;

/// Sums products in chunks of 1,024, each a chain of fused multiply-adds, whose sums are combined pairwise.
fn ordered(terms: &Terms, dtype: DType) -> f64 {
    let chain = |terms: &[(f64, f64)]| match dtype {
        DType::F64 => terms.iter().fold(0f64, |sum, &(x, y)| x.mul_add(y, sum)),
        _ => terms.iter().fold(0f32, |sum, &(x, y)| (x as f32).mul_add(y as f32, sum)).into(),
    };
    by_adjacent_pairs(terms.chunks(1024).map(chain).collect(), dtype)
}

/// Combines sums by adjacent pairs, level by level; an odd last one is carried up.
fn by_adjacent_pairs(mut sums: Vec<f64>, dtype: DType) -> f64 {
    while sums.len() > 1 {
        let pairs = sums.chunks(2).map(|it| it.iter().copied().reduce(|x, y| plus(x, y, dtype)));
        sums = pairs.map(|it| it.expect("one or two")).collect();
    }
    sums.first().copied().unwrap_or(0.0)
}

fn plus(x: f64, y: f64, dtype: DType) -> f64 {
    if dtype == DType::F64 { x + y } else { (x as f32 + y as f32).into() }
}

impl Case {
    fn output(&self) -> [usize; 4] {
        let count = |axis: usize| {
            let padded = self.x[2 + axis] + self.before[axis] + self.after[axis];
            (padded - (self.w[2 + axis] - 1) * self.dilation[axis] - 1) / self.stride[axis] + 1
        };
        [self.x[0], self.w[0], count(0), count(1)]
    }

    fn attrs(&self, sizes: &[usize]) -> Attrs {
        let lists = [&self.stride, &self.dilation, &self.before, &self.after].map(|it| Attr::from(&it[..]));
        let sizes = (!sizes.is_empty()).then(|| Attr::from(sizes));
        Attrs::new(lists.into_iter().chain([self.groups.into()]).chain(sizes))
    }

    /// Returns the position along an axis under a tap at an output position; `None` in padding.
    fn under(&self, axis: usize, window: usize, tap: usize) -> Option<usize> {
        let place = (window * self.stride[axis] + tap * self.dilation[axis]).checked_sub(self.before[axis])?;
        (place < self.x[2 + axis]).then_some(place)
    }

    /// Returns the element of the input under a tap at an output position, or zero in padding.
    fn element(&self, x: &[f64], [image, channel]: [usize; 2], window: [usize; 2], tap: [usize; 2]) -> f64 {
        match (self.under(0, window[0], tap[0]), self.under(1, window[1], tap[1])) {
            (Some(row), Some(column)) => x[flat(self.x, [image, channel, row, column])],
            _ => 0.0,
        }
    }

    fn forward(&self, x: &[f64], w: &[f64], sum: Sum<'_>) -> Vec<f64> {
        let [_, channels, height, width] = self.w;
        let element = |[image, output, row, column]: [usize; 4]| {
            let first = output / (self.w[0] / self.groups) * channels;
            let term = |[channel, i, j, _]: [usize; 4]| {
                let x = self.element(x, [image, first + channel], [row, column], [i, j]);
                (x, w[flat(self.w, [output, channel, i, j])])
            };
            sum(&all([channels, height, width, 1]).map(term).collect())
        };
        all(self.output()).map(element).collect()
    }

    /// Computes backward-data; the summands of taps are added in `dtype`.
    fn backward_data(&self, g: &[f64], w: &[f64], dtype: DType, sum: Sum<'_>) -> Vec<f64> {
        let [_, channels, height, width] = self.w;
        let (result, outputs) = (self.output(), self.w[0] / self.groups);
        let element = |[image, channel, row, column]: [usize; 4]| {
            // Returns the output position whose tap is at a position of an axis.
            let window = |axis: usize, tap: usize, place: usize| {
                (0..result[2 + axis]).find(|&it| self.under(axis, it, tap) == Some(place))
            };
            let mut all_taps = 0.0;
            for [i, j, ..] in all([height, width, 1, 1]) {
                let (Some(at), Some(to)) = (window(0, i, row), window(1, j, column)) else { continue };
                let term = |output: usize| {
                    let output = channel / channels * outputs + output;
                    (g[flat(result, [image, output, at, to])], w[flat(self.w, [output, channel % channels, i, j])])
                };
                all_taps = plus(all_taps, sum(&(0..outputs).map(term).collect()), dtype);
            }
            all_taps
        };
        all(self.x).map(element).collect()
    }

    fn backward_weights(&self, x: &[f64], g: &[f64], sum: Sum<'_>) -> Vec<f64> {
        let result = self.output();
        let element = |[output, channel, i, j]: [usize; 4]| {
            let first = output / (self.w[0] / self.groups) * self.w[1];
            let term = |[image, row, column, _]: [usize; 4]| {
                let x = self.element(x, [image, first + channel], [row, column], [i, j]);
                (x, g[flat(result, [image, output, row, column])])
            };
            sum(&all([result[0], result[2], result[3], 1]).map(term).collect())
        };
        all(self.w).map(element).collect()
    }
}

/// An op, its attributes, its operands, and the elements of its result.
type Expected<'a> = (&'static OpDef, Attrs, [&'a Array; 2], Vec<f64>);

impl Case {
    /// Returns the convolution of `x` and `w`, and its gradients for a gradient `g` of the result.
    fn ops<'a>(&self, [x, w, g]: [&'a Array; 3], sum: Sum<'_>) -> [Expected<'a>; 3] {
        let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let [wide_x, wide_w, wide_g] = [x, w, g].map(wide);
        [
            (&ops::CONV, self.attrs(&[]), [x, w], self.forward(&wide_x, &wide_w, sum)),
            (&ops::CONV_INPUT_GRAD, self.attrs(&self.x[2..]), [g, w], self.backward_data(&wide_g, &wide_w, dtype, sum)),
            (&ops::CONV_WEIGHT_GRAD, self.attrs(&self.w[2..]), [x, g], self.backward_weights(&wide_x, &wide_g, sum)),
        ]
    }
}

/// Iterates over all indices of a shape in row-major order.
fn all(shape: [usize; 4]) -> impl Iterator<Item = [usize; 4]> {
    let [_, b, c, d] = shape;
    (0..shape.iter().product()).map(move |at| [at / (b * c * d), at / (c * d) % b, at / d % c, at % d])
}

fn flat(shape: [usize; 4], at: [usize; 4]) -> usize {
    at.iter().zip(shape).fold(0, |all, (at, size)| all * size + at)
}

fn numbers(shape: &[usize], dtype: DType, mut state: u64) -> Array {
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
    };
    let all: Vec<f32> = (0..shape.iter().product()).map(|_| next() as f32).collect();
    array(shape, dtype, &all.iter().map(|&it| f64::from(it)).collect::<Vec<_>>())
}

/// Returns an array of numbers, rounded to a type.
fn array(shape: &[usize], dtype: DType, numbers: &[f64]) -> Array {
    let mut out = Array::zeros(shape, dtype);
    with_element!(dtype, T => {
        for (to, &it) in out.as_mut_slice::<T>().iter_mut().zip(numbers) {
            *to = T::from_scalar(Scalar::Float(it));
        }
    });
    out
}

fn wide(array: &Array) -> Vec<f64> {
    array.on_host().expect("the elements are readable").scalars().into_iter().map(|it| it.as_f64()).collect()
}

/// Returns the result of an op, in an array with initial contents.
fn result(arithmetic: Arithmetic, def: &'static OpDef, attrs: &Attrs, inputs: [&Array; 2]) -> Array {
    let types = inputs.map(Array::ty);
    let ty: Type = (def.infer)(attrs, &[&types[0], &types[1]]).expect("the operands fit").remove(0);
    let out = Array::full(&ty.shape().expect("constant sizes"), Scalar::Float(7.0), ty.dtype);
    // SAFETY: the output has the type of the type rule, and only this call accesses it.
    let done =
        unsafe { EagerOp::new(arithmetic, def.op(), attrs.clone()).run(&inputs, std::slice::from_ref(&out), &[]) };
    done.expect("there is memory");
    out
}

/// Compares an op with its expected elements, on one thread and on several.
#[track_caller]
fn check_with(arithmetic: Arithmetic, def: &'static OpDef, attrs: &Attrs, inputs: [&Array; 2], want: &[f64]) {
    for alone in [false, true] {
        let compute = || result(arithmetic, def, attrs, inputs);
        let out = if alone { threads::serial(compute) } else { compute() };
        let equal = |got: f64, want: f64| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        let same = wide(&out).iter().zip(want).all(|(&got, &want)| equal(got, want));
        let Arithmetic { isa, precision, .. } = arithmetic;
        let types = inputs.map(Array::ty);
        assert!(same && out.numel() == want.len(), "{} of {types:?} in {precision} on {isa}", def.name());
        if def.op() == ops::CONV.op() {
            let compute = || epilogues::negated(arithmetic, attrs, inputs);
            let out = if alone { threads::serial(compute) } else { compute() };
            let same = out.is_none_or(|it| wide(&it).iter().zip(want).all(|(&got, &want)| equal(got, -want)));
            assert!(same, "conv of {types:?} with an epilogue in {precision} on {isa}");
        }
    }
}

/// Compares an op with its expected elements on all instruction sets in strict precision, and in `Medium` without an
/// engine.
#[track_caller]
fn check(def: &'static OpDef, attrs: &Attrs, inputs: [&Array; 2], want: &[f64]) {
    for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
        check_with(Arithmetic::new(isa, Precision::Strict), def, attrs, inputs, want);
    }
    check_with(Arithmetic::new(Isa::detect(), Precision::Medium).on(Engine::None), def, attrs, inputs, want);
}

#[test]
fn sums_have_one_order() {
    let cases = [
        Case { x: [2, 3, 7, 6], w: [4, 3, 3, 2], before: [1, 0], after: [2, 1], ..PLAIN },
        Case { x: [3, 4, 9, 8], w: [6, 2, 3, 3], stride: [2, 3], dilation: [2, 1], before: [1; 2], groups: 2, ..PLAIN },
        // Depthwise: fewer groups than lanes, and more; chunks that begin inside rows.
        Case { x: [2, 5, 8, 8], w: [5, 1, 3, 3], before: [1; 2], after: [1; 2], groups: 5, ..PLAIN },
        Case { x: [5, 19, 17, 15], w: [19, 1, 3, 3], before: [1; 2], after: [1; 2], groups: 19, ..PLAIN },
        Case {
            x: [2, 33, 9, 11],
            w: [33, 1, 5, 3],
            stride: [2, 3],
            before: [2, 1],
            after: [1, 3],
            groups: 33,
            ..PLAIN
        },
        Case { x: [1, 16, 12, 13], w: [16, 1, 3, 4], dilation: [2, 3], stride: [1, 2], groups: 16, ..PLAIN },
        // One output channel for several input channels; more padding than elements; strides larger than kernels.
        Case { x: [2, 36, 6, 7], w: [18, 2, 3, 3], before: [1, 0], after: [0, 2], groups: 18, ..PLAIN },
        Case { x: [1, 16, 1, 2], w: [16, 1, 3, 3], before: [3, 2], after: [2, 4], groups: 16, ..PLAIN },
        Case { x: [2, 16, 9, 9], w: [16, 1, 1, 2], stride: [3, 4], groups: 16, ..PLAIN },
        // Taps too far apart for a compact grid.
        Case { x: [1, 16, 1, 40], w: [16, 1, 1, 3], dilation: [1, 18], groups: 16, ..PLAIN },
        // More than a chunk of channels and taps, and of images and output positions; chunks that begin inside rows.
        Case { x: [1, 130, 4, 5], w: [3, 130, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
        Case { x: [5, 2, 23, 21], w: [3, 2, 2, 3], stride: [1, 1], before: [1, 1], ..PLAIN },
        // Chunks in numbers with several waiting sums: of channels and taps, and of output positions.
        Case { x: [1, 400, 6, 6], w: [5, 400, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
        Case { x: [3, 456, 3, 3], w: [13, 456, 3, 3], ..PLAIN },
        Case { x: [8, 8, 33, 31], w: [8, 1, 2, 2], groups: 8, ..PLAIN },
        Case { x: [7, 2, 34, 33], w: [9, 2, 2, 2], ..PLAIN },
        Case { x: [8, 3, 33, 32], w: [70, 3, 2, 2], ..PLAIN },
        Case { x: [8, 16, 33, 32], w: [66, 16, 2, 1], ..PLAIN },
        // Tasks with output positions of several images.
        Case { x: [25, 3, 5, 5], w: [4, 3, 2, 2], before: [1, 0], ..PLAIN },
        Case { x: [70, 4, 7, 5], w: [6, 2, 3, 2], stride: [2, 2], after: [1, 0], groups: 2, ..PLAIN },
        // Few output positions: whole and partial vectors, several vectors, and more than a chunk of products per
        // group.
        Case { x: [8, 5, 3, 3], w: [29, 5, 3, 3], ..PLAIN },
        Case { x: [9, 6, 3, 4], w: [34, 3, 2, 2], before: [0, 1], after: [1, 0], groups: 2, ..PLAIN },
        Case { x: [3, 228, 4, 3], w: [28, 114, 3, 3], stride: [1, 2], before: [1; 2], groups: 2, ..PLAIN },
        // Pointwise, with and without groups.
        Case { x: [3, 6, 5, 7], w: [10, 3, 1, 1], groups: 2, ..PLAIN },
        Case { x: [2, 9, 4, 4], w: [1030, 9, 1, 1], ..PLAIN },
        // Direct convolution of small groups. Rows of whole vectors, of overlapping ones, or of less than one;
        // dilation; elements under no tap; strides; panels of different numbers of output channels.
        Case { x: [9, 2, 11, 20], w: [13, 2, 4, 5], ..PLAIN },
        Case { x: [8, 1, 12, 13], w: [5, 1, 5, 3], before: [1, 2], after: [0, 2], ..PLAIN },
        Case { x: [8, 3, 18, 14], w: [2, 3, 2, 3], stride: [2, 1], dilation: [3, 2], after: [1, 2], ..PLAIN },
        Case { x: [9, 2, 17, 33], w: [7, 2, 3, 2], stride: [1, 3], before: [1, 0], ..PLAIN },
        Case { x: [4, 6, 13, 9], w: [27, 2, 3, 2], stride: [1, 1], before: [2, 1], groups: 3, ..PLAIN },
        Case { x: [8, 1, 2, 70], w: [3, 1, 1, 9], stride: [1, 1], ..PLAIN },
        // Large images in parts: of output channels, and of output positions in the whole grid and in rows of whole
        // vectors. More than a chunk of products; strides, groups, and one row.
        Case { x: [1, 5, 14, 13], w: [13, 5, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
        Case { x: [1, 2, 43, 41], w: [5, 2, 3, 2], before: [1, 0], ..PLAIN },
        Case { x: [1, 3, 52, 34], w: [15, 3, 2, 3], before: [1, 0], ..PLAIN },
        Case { x: [2, 116, 9, 10], w: [7, 116, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
        Case {
            x: [2, 6, 21, 22],
            w: [26, 3, 3, 3],
            stride: [2; 2],
            dilation: [1, 2],
            before: [1; 2],
            groups: 2,
            ..PLAIN
        },
        Case { x: [1, 4, 1, 100], w: [6, 4, 1, 5], stride: [1, 2], before: [0, 3], after: [0, 1], ..PLAIN },
        // Backward-weights tap by tap: whole and partial tiles of channels, and rows of gradients that are a page
        // apart. Groups, strides, dilation, tasks with some output channels, and chunks that begin inside rows.
        Case { x: [2, 62, 7, 6], w: [70, 31, 3, 3], before: [1; 2], after: [1, 0], groups: 2, ..PLAIN },
        Case { x: [16, 32, 9, 9], w: [33, 32, 2, 2], ..PLAIN },
        Case { x: [11, 16, 13, 17], w: [40, 16, 2, 3], stride: [1, 2], dilation: [2, 1], before: [0, 2], ..PLAIN },
        Case { x: [3, 30, 2, 5], w: [150, 30, 1, 1], ..PLAIN },
        // Backward-data vectorised over output positions: of the whole grid, of rows with partial vectors, and with
        // rows that a tap does not read. Many vectors of many channels; groups, strides, dilation, and one row.
        Case { x: [1, 13, 14, 11], w: [9, 13, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
        Case { x: [2, 7, 7, 7], w: [11, 7, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
        Case { x: [1, 4, 22, 21], w: [300, 4, 2, 3], before: [1, 2], ..PLAIN },
        Case {
            x: [1, 10, 21, 30],
            w: [14, 5, 3, 3],
            stride: [2; 2],
            before: [1; 2],
            after: [1; 2],
            groups: 2,
            ..PLAIN
        },
        Case { x: [2, 26, 19, 15], w: [4, 26, 3, 2], stride: [1, 3], dilation: [2; 2], before: [1; 2], ..PLAIN },
        Case { x: [1, 5, 1, 90], w: [6, 5, 1, 4], stride: [1, 2], dilation: [1, 3], after: [0, 3], ..PLAIN },
        // Backward-data vectorised over images: whole vectors, and overlapping sets; planes of few elements; many
        // vectors of many channels.
        Case { x: [16, 13, 6, 5], w: [9, 13, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
        Case { x: [19, 8, 5, 7], w: [10, 4, 2, 3], before: [0, 1], groups: 2, ..PLAIN },
        Case { x: [11, 15, 2, 3], w: [7, 15, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
        Case { x: [8, 4, 9, 8], w: [80, 4, 3, 2], before: [1; 2], after: [1, 0], ..PLAIN },
        Case { x: [13, 6, 9, 10], w: [5, 6, 3, 3], stride: [2, 3], dilation: [2, 1], before: [1, 2], ..PLAIN },
        // More than a chunk of output channels.
        Case { x: [1, 2, 3, 3], w: [1030, 2, 2, 2], ..PLAIN },
    ];
    cases.iter().for_each(|case| check_all(case, None));
}

/// Numbers that are not finite meet padding, or an output position outside the image.
#[test]
fn padding_times_infinity() {
    let depthwise = Case { x: [2, 19, 6, 5], w: [19, 1, 3, 3], before: [1; 2], after: [1; 2], groups: 19, ..PLAIN };
    let strided = Case { stride: [2, 2], ..depthwise };
    let dense = Case { w: [2, 19, 3, 3], groups: 1, ..depthwise };
    let small = Case { x: [8, 2, 10, 11], w: [6, 1, 3, 3], before: [1; 2], after: [1; 2], groups: 2, ..PLAIN };
    let apart = Case { stride: [2, 1], dilation: [1, 2], ..small };
    let large = Case { x: [1, 3, 12, 13], w: [8, 3, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN };
    let wide = Case { x: [1, 5, 12, 13], w: [8, 5, 3, 3], ..large };
    let several = Case { x: [9, 5, 6, 7], ..wide };
    for case in [&depthwise, &strided, &dense, &small, &apart, &large, &wide, &several] {
        for special in [f64::INFINITY, f64::NAN] {
            check_all(case, Some(special));
        }
    }
}

/// Compares a convolution and its gradients with their expected elements, including a `special` number among the
/// elements and weights.
#[track_caller]
fn check_all(case: &Case, special: Option<f64>) {
    for dtype in [DType::F32, DType::F64] {
        let [x, w, g] = [(case.x, 1), (case.w, 2), (case.output(), 3)].map(|(shape, seed)| {
            let array = numbers(&shape, dtype, seed);
            match special {
                Some(special) => with_special(&array, special),
                None => array,
            }
        });
        for (def, attrs, inputs, want) in case.ops([&x, &w, &g], &|terms| ordered(terms, dtype)) {
            check(def, &attrs, inputs, &want);
        }
    }
}

/// Returns the array with every 31st element replaced by a number.
fn with_special(of: &Array, special: f64) -> Array {
    let put = |(i, it): (usize, f64)| if i % 31 == 3 { special } else { it };
    array(of.shape(), of.dtype(), &wide(of).into_iter().enumerate().map(put).collect::<Vec<_>>())
}
