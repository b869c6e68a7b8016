//! Measures what each implementation of a convolution gains: the time without it over the time with it, for the cases
//! in which it is chosen. `cargo bench -p ms-cpu --bench implementations`; `MS_CPU_ISA` chooses the instruction set.

mod timing;

use ms_cpu::{CpuBackend, without};
use ms_ir::Precision;
use ms_ir::data::{Array, Attr, Attrs, DType, Scalar};
use ms_ops::ops::{self, OpDef};
use timing::fastest;

/// The number of runs. The fastest one counts.
const ROUNDS: usize = 9;

/// The number of times that both sides of a ratio are measured, in turn. The median counts.
const PAIRS: usize = 5;

/// Batch size, channels and side; output channels and kernel size; stride and groups.
const CASES: [([usize; 3], [usize; 2], usize, usize); 17] = [
    ([1, 3, 224], [64, 7], 2, 1),
    ([1, 512, 7], [512, 3], 1, 1),
    ([1, 256, 14], [256, 3], 1, 1),
    ([8, 3, 64], [32, 3], 1, 1),
    ([8, 64, 28], [64, 3], 1, 1),
    ([8, 128, 28], [128, 3], 2, 1),
    ([32, 256, 7], [256, 3], 1, 1),
    ([8, 256, 14], [64, 1], 1, 1),
    ([64, 512, 4], [512, 3], 1, 1),
    ([8, 64, 28], [64, 3], 1, 64),
    ([1, 64, 56], [64, 3], 1, 1),
    ([1, 128, 28], [256, 3], 2, 1),
    ([8, 128, 4], [128, 3], 1, 1),
    ([64, 3, 32], [16, 3], 1, 1),
    ([32, 1, 28], [6, 5], 1, 1),
    ([32, 6, 12], [16, 5], 1, 1),
    ([8, 16, 8], [32, 3], 2, 1),
];

/// The implementations of each op that are not the last of its list.
const NAMES: [(&OpDef, &[&str]); 3] = [
    (
        &ops::CONV,
        &["direct with one output channel", "brgemm", "winograd", "direct", "direct in parts", "small-n gemm"],
    ),
    (&ops::CONV_INPUT_GRAD, &["direct with one output channel", "winograd", "direct", "by taps"]),
    (&ops::CONV_WEIGHT_GRAD, &["winograd", "direct by groups", "direct by output channels", "by taps"]),
];

fn main() {
    let backend = CpuBackend::new();
    println!("{} on {}", backend.isa(), ms_cpu::threads::count());
    for ([images, channels, side], [outputs, kernel], stride, groups) in CASES {
        let half = |shape: &[usize]| Array::full(shape, Scalar::Float(0.5), DType::F32);
        let (x, w) = (half(&[images, channels, side, side]), half(&[outputs, channels / groups, kernel, kernel]));
        let padding = kernel / 2;
        let out_side = (side + 2 * padding - kernel) / stride + 1;
        let y = half(&[images, outputs, out_side, out_side]);
        let attrs = |sizes: Option<usize>| {
            let all = |it: usize| Attr::from(&[it, it][..]);
            let window = [all(stride), all(1), all(padding), all(padding), groups.into()];
            Attrs::new(window.into_iter().chain(sizes.map(all)))
        };
        let calls: [(Attrs, [&Array; 2], &Array); 3] =
            [(attrs(None), [&x, &w], &y), (attrs(Some(side)), [&y, &w], &x), (attrs(Some(kernel)), [&x, &y], &w)];
        for ((def, names), (attrs, inputs, out)) in NAMES.iter().zip(&calls) {
            let precisions = [Precision::Strict, Precision::Highest];
            for (name, precision) in names.iter().flat_map(|name| precisions.map(|it| (name, it))) {
                let time = |skipped: &'static [&'static str]| {
                    without(skipped, || fastest(&backend, (ROUNDS, precision), (*def, attrs), inputs, out))
                };
                let ratio = |_| time(std::slice::from_ref(name)) / time(&[]);
                let mut ratios: Vec<f64> = (0..PAIRS).map(ratio).collect();
                ratios.sort_by(f64::total_cmp);
                if ratios[PAIRS / 2] > 1.03 {
                    let what =
                        format!("{images}x{channels}x{side}x{side} * {outputs}x{kernel}x{kernel} / {stride}, {groups}");
                    println!("{what:40}{:20}{name:32}{precision:10}{:8.2}", def.name(), ratios[PAIRS / 2]);
                }
            }
        }
    }
}
