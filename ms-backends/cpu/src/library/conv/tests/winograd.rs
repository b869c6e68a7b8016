//! Tests Winograd convolution bit by bit against plain loops, and within bounds against exact sums.

use super::engines::{Shapes, errors, operands, ops_of};
use super::{Case, PLAIN, all, by_adjacent_pairs, check_with, flat, numbers, ordered, result, wide};
use crate::library::conv::Conv;
use crate::library::conv::winograd::Winograd;
use crate::library::epilogues::Epilogues;
use ms_ir::Precision;
use ms_ir::data::{Array, DType, Scalar};
use ms_ops::ops;
use ms_ops::tensor::{Parameter, Tensor};
use ms_x64::Isa;
use ms_x64::gemm::testing::hash;
use ms_x64::gemm::{Arithmetic, Elements};
use ms_x64::threads;
use std::array::from_fn;

/// Transforms the rows and columns of a tile; columns first if `down_first`.
fn both<const N: usize, const M: usize>(
    x: [[f32; N]; N],
    down_first: bool,
    f: fn([f32; N]) -> [f32; M],
) -> [[f32; M]; M] {
    fn transposed<const N: usize, const M: usize>(x: [[f32; N]; M]) -> [[f32; M]; N] {
        from_fn(|i| from_fn(|j| x[j][i]))
    }
    match down_first {
        true => transposed(transposed(x).map(f)).map(f),
        false => transposed(transposed(x.map(f)).map(f)),
    }
}

fn input_tile(d: [f32; 4]) -> [f32; 4] {
    [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]
}

fn filter(g: [f32; 3]) -> [f32; 4] {
    [g[0], (g[0] + g[2] + g[1]) * 0.5, (g[0] + g[2] - g[1]) * 0.5, g[2]]
}

fn output_tile(m: [f32; 4]) -> [f32; 2] {
    [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]
}

fn gradient(g: [f32; 2]) -> [f32; 4] {
    [g[0], g[0] + g[1], g[0] - g[1], g[1]]
}

fn weight(m: [f32; 4]) -> [f32; 3] {
    let half = (m[1] + m[2]) * 0.5;
    [m[0] + half, (m[1] - m[2]) * 0.5, half - m[3]]
}

impl Case {
    /// Computes backward-weights by the algorithm; `tile_rows_of_chain` returns the rows of input tiles of each
    /// accumulation chain.
    fn weights_in_tiles(&self, x: &[f64], g: &[f64], tile_rows_of_chain: impl Fn(usize) -> Vec<usize>) -> Vec<f64> {
        let shape = self.output();
        let [batch, _, rows, columns] = shape;
        let [tile_rows, of_tile_row] = [batch * rows.div_ceil(2), columns.div_ceil(2)];
        let chains = tile_rows_of_chain(tile_rows);
        let [outputs, channels, ..] = self.w;
        let mut out = vec![0.0; self.w.iter().product()];
        for [output, channel, ..] in all([outputs, channels, 1, 1]) {
            let group = output / (outputs / self.groups);
            let transformed = |[image, row, column]: [usize; 3]| {
                let element = |i: usize, j: usize| {
                    let window = [2 * row + i, 2 * column + j];
                    self.element(x, [image, group * channels + channel], window, [0; 2]) as f32
                };
                let of_window = |i: usize, j: usize| {
                    let [i, j] = [2 * row + i, 2 * column + j];
                    if i < rows && j < columns { g[flat(shape, [image, output, i, j])] as f32 } else { 0.0 }
                };
                let [input_tile, output_tile] = [
                    both(from_fn(|i| from_fn(|j| element(i, j))), false, input_tile),
                    both(from_fn(|i| from_fn(|j| of_window(i, j))), false, gradient),
                ];
                from_fn::<_, 16, _>(|at| (input_tile[at / 4][at % 4].into(), output_tile[at / 4][at % 4].into()))
            };
            let mut sums = [const { Vec::new() }; 16];
            let mut at = 0;
            for some in &chains {
                let places = (at..at + some).flat_map(|it| (0..of_tile_row).map(move |column| [it, column]));
                let input_tiles = places.map(|[it, j]| transformed([it / rows.div_ceil(2), it % rows.div_ceil(2), j]));
                let terms: Vec<[(f64, f64); 16]> = input_tiles.collect();
                for (number, sums) in sums.iter_mut().enumerate() {
                    sums.push(ordered(&terms.iter().map(|it| it[number]).collect(), DType::F32));
                }
                at += some;
            }
            let sums = sums.map(|it| by_adjacent_pairs(it, DType::F32) as f32);
            let filter = both(from_fn(|i| from_fn(|j| sums[4 * i + j])), true, weight);
            for [i, j, ..] in all([3, 3, 1, 1]) {
                out[flat(self.w, [output, channel, i, j])] = filter[i][j].into();
            }
        }
        out
    }

    /// Computes the convolution by the algorithm, in the specified order of sums.
    fn in_tiles(&self, x: &[f64], w: &[f64]) -> Vec<f64> {
        let shape = self.output();
        let [_, _, rows, columns] = shape;
        let channels = self.w[1];
        let mut out = vec![0.0; shape.iter().product()];
        for [image, output, row, column] in all([shape[0], shape[1], rows.div_ceil(2), columns.div_ceil(2)]) {
            let first = output / (self.w[0] / self.groups) * channels;
            let transformed = |channel: usize| {
                let element = |i: usize, j: usize| {
                    let window = [2 * row + i, 2 * column + j];
                    self.element(x, [image, first + channel], window, [0; 2]) as f32
                };
                let weight = |i: usize, j: usize| w[flat(self.w, [output, channel, i, j])] as f32;
                let [input_tile, filter] = [
                    both(from_fn(|i| from_fn(|j| element(i, j))), false, input_tile),
                    both(from_fn(|i| from_fn(|j| weight(i, j))), true, filter),
                ];
                from_fn::<_, 16, _>(|at| (input_tile[at / 4][at % 4].into(), filter[at / 4][at % 4].into()))
            };
            let terms: Vec<[(f64, f64); 16]> = (0..channels).map(transformed).collect();
            let sum = |at: usize| ordered(&terms.iter().map(|it| it[at]).collect(), DType::F32) as f32;
            let windows = both(from_fn(|i| from_fn(|j| sum(4 * i + j))), true, output_tile);
            for [i, j, ..] in all([2, 2, 1, 1]).filter(|it| 2 * row + it[0] < rows && 2 * column + it[1] < columns) {
                out[flat(shape, [image, output, 2 * row + i, 2 * column + j])] = windows[i][j].into();
            }
        }
        out
    }

    /// Returns the convolution that is the backward-data of this one, with rotated filters, and its weights.
    fn of_gradient(&self, w: &[f64]) -> (Case, Vec<f64>) {
        let [outputs, channels] = [self.w[0] / self.groups, self.w[1]];
        let rotated = [channels * self.groups, outputs, 3, 3];
        let weight = |[channel, output, i, j]: [usize; 4]| {
            let (group, channel) = (channel / channels, channel % channels);
            w[flat(self.w, [group * outputs + output, channel, 2 - i, 2 - j])]
        };
        let before = self.before.map(|it| 2 - it);
        let x = self.output();
        let after = from_fn(|axis| self.x[2 + axis] + 2 - x[2 + axis] - before[axis]);
        (Case { x, w: rotated, before, after, ..*self }, all(rotated).map(weight).collect())
    }
}

/// Runs the algorithm, whatever the sizes are.
fn computed(isa: Isa, case: &Case, [x, w]: [&Array; 2], is_gradient: bool) -> Vec<f64> {
    let conv = Conv::new(&case.attrs(&[]), &case.x, &case.w, &case.output());
    let it = Winograd::new(&conv, isa, is_gradient).expect("the kernel has three by three elements");
    let shape = if is_gradient { case.x } else { case.output() };
    let mut out = Array::full(&shape, Scalar::Float(7.0), DType::F32);
    let [x, w] = [x, w].map(|it| it.on_host().expect("the elements are readable"));
    let epilogues = Epilogues::new(&[], &shape);
    let x = x.as_slice::<f32>().expect("they are dense");
    let w = Elements::from(w.as_slice::<f32>().expect("they are dense"));
    it.compute(x, w, out.as_mut_slice(), epilogues).expect("there is memory");
    wide(&out)
}

/// Computes backward-weights by the algorithm, whatever the sizes are.
fn computed_weights(isa: Isa, case: &Case, [x, g]: [&Array; 2]) -> Vec<f64> {
    let conv = Conv::new(&case.attrs(&[]), &case.x, &case.w, &case.output());
    let it = Winograd::new(&conv, isa, false).expect("the kernel has three by three elements");
    let mut out = Array::full(&case.w, Scalar::Float(7.0), DType::F32);
    let [x, g] = [x, g].map(|it| it.on_host().expect("the elements are readable"));
    let [x, g] = [&x, &g].map(|it| it.as_slice::<f32>().expect("they are dense"));
    it.compute_backward_weights(x, g, out.as_mut_slice()).expect("there is memory");
    wide(&out)
}

/// Returns the numbers of rows of input tiles of each chain: about equal, with at most 1,024 input tiles.
fn chains(tile_rows: usize, of_tile_row: usize) -> Vec<usize> {
    let parts = tile_rows.div_ceil((1024 / of_tile_row).max(1));
    (0..parts).map(|it| (it + 1) * tile_rows / parts - it * tile_rows / parts).collect()
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|it| it.is_supported())
}

const CASES: [Case; 9] = [
    // One input tile; an odd number of output positions along both axes, several images, and channels that do not fill
    // a panel.
    Case { x: [1, 1, 4, 4], w: [1, 1, 3, 3], ..PLAIN },
    Case { x: [3, 5, 9, 7], w: [13, 5, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
    // Padding on some sides only, and wider than a window.
    Case { x: [2, 3, 6, 5], w: [4, 3, 3, 3], before: [2, 0], after: [0, 2], ..PLAIN },
    Case { x: [1, 2, 1, 2], w: [3, 2, 3, 3], before: [2; 2], after: [4; 2], ..PLAIN },
    // Groups; rows of more input tiles than are transformed at once.
    Case { x: [2, 6, 5, 8], w: [26, 3, 3, 3], before: [1; 2], after: [1; 2], groups: 2, ..PLAIN },
    Case { x: [1, 4, 6, 75], w: [14, 4, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
    // Tasks of rows of input tiles, with parts of images; more than a chunk of channels.
    Case { x: [3, 40, 34, 38], w: [14, 40, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
    Case { x: [1, 1026, 5, 6], w: [3, 1026, 3, 3], before: [1, 0], ..PLAIN },
    // More output channels than are transformed at once.
    Case { x: [2, 3, 7, 7], w: [110, 3, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
];

#[test]
fn sums_are_in_tiles() {
    for (number, case) in CASES.iter().enumerate() {
        let [x, w, g] = operands(case, DType::F32);
        let [wide_x, wide_w, wide_g] = [&x, &w, &g].map(wide);
        let want = case.in_tiles(&wide_x, &wide_w);
        let of_gradient = (case.before.iter().chain(&case.after).all(|it| *it <= 2)).then(|| {
            let (other, rotated) = case.of_gradient(&wide_w);
            other.in_tiles(&wide_g, &rotated)
        });
        for isa in isas() {
            for alone in [false, true] {
                let run = |inputs: [&Array; 2], is_gradient: bool| {
                    let compute = || computed(isa, case, inputs, is_gradient);
                    if alone { threads::serial(compute) } else { compute() }
                };
                assert!(run([&x, &w], false) == want, "case {number} on {isa}");
                let is_same = of_gradient.as_ref().is_none_or(|want| run([&g, &w], true) == *want);
                assert!(is_same, "the gradient of case {number} on {isa}");
            }
        }
    }
}

#[test]
fn backward_weights_is_in_tiles() {
    let more = [
        // Several chains, with parts of images; a row with more input tiles than a chain has.
        Case { x: [3, 2, 34, 79], w: [3, 2, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
        Case { x: [2, 1, 3, 2100], w: [2, 1, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN },
    ];
    for (number, case) in CASES.iter().chain(&more).enumerate() {
        let [x, _, g] = operands(case, DType::F32);
        let of_tile_row = case.output()[3].div_ceil(2);
        let want = case.weights_in_tiles(&wide(&x), &wide(&g), |tile_rows| chains(tile_rows, of_tile_row));
        for isa in isas() {
            for alone in [false, true] {
                let compute = || computed_weights(isa, case, [&x, &g]);
                let found = if alone { threads::serial(compute) } else { compute() };
                assert!(found == want, "case {number} on {isa}");
            }
        }
    }
}

/// Sizes for which Winograd is faster, on a machine without AMX.
const LARGE: Case = Case { x: [1, 48, 20, 20], w: [48, 48, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN };

fn relaxed() -> Arithmetic {
    Arithmetic::new(Isa::detect(), Precision::Highest)
}

/// A program's convolutions use Winograd, with their epilogues, where it is permitted and faster.
#[test]
fn large_convolutions_are_in_tiles() {
    let [x, w, g] = operands(&LARGE, DType::F32);
    let [wide_x, wide_w, wide_g] = [&x, &w, &g].map(wide);
    let want = LARGE.in_tiles(&wide_x, &wide_w);
    let (other, rotated) = LARGE.of_gradient(&wide_w);
    let of_gradient = other.in_tiles(&wide_g, &rotated);
    let of_weights = LARGE.weights_in_tiles(&wide_x, &wide_g, |tile_rows| chains(tile_rows, LARGE.x[3] / 2));
    for isa in isas().filter(|it| *it != Isa::Interp) {
        let arithmetic = Arithmetic::new(isa, Precision::Highest);
        check_with(arithmetic, &ops::CONV, &LARGE.attrs(&[]), [&x, &w], &want);
        check_with(arithmetic, &ops::CONV_INPUT_GRAD, &LARGE.attrs(&LARGE.x[2..]), [&g, &w], &of_gradient);
        check_with(arithmetic, &ops::CONV_WEIGHT_GRAD, &LARGE.attrs(&LARGE.w[2..]), [&x, &g], &of_weights);
    }
    let chains = result(Arithmetic::new(Isa::detect(), Precision::Strict), &ops::CONV, &LARGE.attrs(&[]), [&x, &w]);
    assert_ne!(wide(&chains), want, "in strict precision there is one order");
}

/// Sizes for which the other algorithms are faster.
#[test]
fn winograd_runs_where_it_is_faster() {
    // Images, input channels, output channels, and size; whether Winograd is faster for the convolution, and for
    // backward-data.
    let cases = [
        ([1, 64, 64, 56], [true, true]),
        ([1, 256, 256, 14], [true, true]),
        // Few input tiles for large filters, few channels, and many output positions on padding.
        ([1, 512, 512, 7], [false, false]),
        ([32, 16, 16, 12], [false, false]),
        ([8, 128, 128, 4], [true, false]),
        ([8, 256, 256, 2], [false, false]),
    ];
    for ([batch, channels, outputs, size], want) in cases {
        let x = [batch, channels, size, size];
        let case = Case { x, w: [outputs, channels, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN };
        let conv = Conv::new(&case.attrs(&[]), &case.x, &case.w, &case.output());
        let is_profitable =
            |is_gradient| Winograd::new(&conv, Isa::Avx2, is_gradient).is_some_and(|it| it.is_profitable());
        assert_eq!([false, true].map(is_profitable), want, "{x:?}");
    }
    // Other kernels, strides, dilation, and padding that backward-data cannot have.
    let others = [
        Case { w: [48, 48, 3, 2], ..LARGE },
        Case { stride: [1, 2], ..LARGE },
        Case { dilation: [2, 1], ..LARGE },
        Case { before: [3, 0], ..LARGE },
    ];
    for (number, case) in others.iter().enumerate() {
        let conv = Conv::new(&case.attrs(&[]), &case.x, &case.w, &case.output());
        assert_eq!(Winograd::new(&conv, Isa::Avx2, false).is_some(), number == 3, "{number}");
        assert!(Winograd::new(&conv, Isa::Avx2, true).is_none(), "{number}");
    }
}

/// A convolution without channels, and backward-data without outputs, are zeros.
#[test]
fn no_channels() {
    let shapes: [[[usize; 4]; 2]; 2] = [[[1, 0, 20, 20], [48, 0, 3, 3]], [[1, 48, 20, 20], [0, 48, 3, 3]]];
    for (shapes, which) in shapes.iter().zip([0, 1]) {
        let (def, attrs, [a, b]) =
            ops_of([&shapes[0], &shapes[1]], [1, 1, 1], 1).into_iter().nth(which).expect("it is one of three");
        let [a, b] = [a, b].map(|it| numbers(&it, DType::F32, 1));
        let found = wide(&result(relaxed(), def, &attrs, [&a, &b]));
        assert!(found.len() == 48 * 20 * 20 && found.iter().all(|it| *it == 0.0), "{}", def.name());
    }
}

/// Errors, relative to the sums of magnitudes, are similar to direct chains.
#[test]
fn errors_are_about_those_of_chains() {
    // Maximum and root mean square errors, for elements that are uniform in [-1, 1], and in [0, 1].
    const BOUNDS: [[f64; 2]; 2] = [[1.5e-7, 2e-8], [2.5e-6, 4e-7]];
    // The chains of backward-weights are a quarter as long, not a ninth.
    const OF_WEIGHTS: [[f64; 2]; 2] = [[3e-7, 3e-8], [1.5e-6, 3e-7]];
    let shapes: [Shapes; 2] = [[&[1, 64, 24, 24], &[64, 64, 3, 3]], [&[1, 256, 14, 14], &[96, 256, 3, 3]]];
    for (shapes, is_positive) in shapes.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        for (def, attrs, [a, b]) in ops_of(shapes, [1, 1, 1], 1) {
            let mut operands = [numbers(&a, DType::F32, 1), numbers(&b, DType::F32, 2)];
            if is_positive {
                operands.iter_mut().for_each(|it| it.as_mut_slice::<f32>().iter_mut().for_each(|it| *it = it.abs()));
            }
            let strict = Arithmetic::new(Isa::detect(), Precision::Strict);
            let [chains, winograd] = [strict, relaxed()].map(|it| errors(it, def, &attrs, operands.each_ref()));
            let name = def.name();
            println!("{name} of {shapes:?}, positive: {is_positive}: strict {chains:?}, in squares {winograd:?}");
            let is_of_weights = def.op() == ops::CONV_WEIGHT_GRAD.op();
            let bounds = if is_of_weights { OF_WEIGHTS } else { BOUNDS }[usize::from(is_positive)];
            assert!(winograd[0] <= bounds[0] && winograd[1] <= bounds[1], "{name}: {winograd:?}, not {bounds:?}");
        }
    }
}

/// A single element for which transforms are inexact, wherever it is, gives the op the order of direct chains.
#[test]
fn elements_that_are_too_large() {
    let special = [
        (f64::INFINITY, true),
        (f64::NAN, true),
        (2f64.powi(97), true),
        (2f64.powi(96), false),
        (2f64.powi(-149), false),
        (0.0, false),
    ];
    for (def, attrs, shapes) in ops_of([&LARGE.x, &LARGE.w], [1, 1, 1], 1) {
        let operands = || [0, 1].map(|it| numbers(&shapes[it], DType::F32, it as u64));
        for ((number, is_refused), operand) in special.into_iter().flat_map(|it| [(it, 0), (it, 1)]) {
            let mut inputs = operands();
            *inputs[operand].as_mut_slice::<f32>().last_mut().expect("there are elements") = number as f32;
            let strict = Arithmetic::new(Isa::detect(), Precision::Strict);
            let [chains, found] =
                [strict, relaxed()].map(|it| hash(&result(it, def, &attrs, [&inputs[0], &inputs[1]])));
            assert_eq!(chains == found, is_refused, "{} with {number:e} in operand {operand}", def.name());
        }
        // Scales all elements of an operand.
        for (exponent, is_refused) in [(-94, false), (-96, true)] {
            let mut inputs = operands();
            inputs[0].as_mut_slice::<f32>().iter_mut().for_each(|it| *it *= 2f32.powi(exponent));
            let strict = Arithmetic::new(Isa::detect(), Precision::Strict);
            let [chains, found] =
                [strict, relaxed()].map(|it| hash(&result(it, def, &attrs, [&inputs[0], &inputs[1]])));
            assert_eq!(chains == found, is_refused, "{} with 2^{exponent}", def.name());
        }
    }
}

/// A parameter's filters are transformed once for each op, and have the same bits.
#[test]
fn cached_filters_change_no_bit() {
    let [x, w, g] = operands(&LARGE, DType::F32);
    let ops = &LARGE.ops([&x, &w, &g], &|_| 0.0)[..2];
    let all = || ops.iter().map(|(def, attrs, inputs, _)| hash(&result(relaxed(), def, attrs, *inputs)));
    let want: Vec<_> = all().collect();
    let slot = Parameter::new(Tensor::from_array(w.clone()), "");
    for call in 0..5 {
        assert!(all().eq(want.iter().cloned()), "call {call}");
    }
    assert_eq!(w.storage().forms(), 3, "a range and the filters of two ops");
    drop(slot);
}
