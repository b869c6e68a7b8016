//! Measures convolutions and their gradients. `cargo bench -p ms-cpu --bench convolutions`.

mod timing;

use ms_cpu::CpuBackend;
use ms_ir::Precision;
use ms_ir::data::{Array, Attr, Attrs, DType, Scalar};
use ms_ops::ops;
use timing::fastest;

/// The number of runs. The fastest one is printed.
const ROUNDS: usize = 15;

/// Batch size, channels and side; output channels and kernel size; stride and groups.
const CASES: [([usize; 3], [usize; 2], usize, usize); 15] = [
    ([1, 3, 224], [64, 7], 2, 1),
    ([1, 512, 7], [512, 3], 1, 1),
    ([1, 256, 14], [256, 3], 1, 1),
    ([8, 3, 64], [32, 3], 1, 1),
    ([8, 64, 28], [64, 3], 1, 1),
    ([8, 128, 28], [128, 3], 2, 1),
    ([32, 256, 7], [256, 3], 1, 1),
    ([8, 256, 14], [64, 1], 1, 1),
    ([64, 512, 4], [512, 3], 1, 1),
    ([64, 256, 8], [256, 3], 1, 1),
    ([8, 64, 28], [64, 3], 1, 64),
    ([1, 64, 56], [64, 3], 1, 1),
    ([1, 128, 28], [256, 3], 2, 1),
    ([8, 128, 4], [128, 3], 1, 1),
    ([64, 3, 32], [16, 3], 1, 1),
];

fn main() {
    let backend = CpuBackend::new();
    println!("{} on {}", backend.isa(), ms_cpu::threads::count());
    println!("{:40}{:>12}{:>12}{:>12}", "", "forward us", "input us", "weight us");
    for ([images, channels, side], [outputs, kernel], stride, groups) in CASES {
        let half = |shape: &[usize]| Array::full(shape, Scalar::Float(0.5), DType::F32);
        let x = half(&[images, channels, side, side]);
        let w = half(&[outputs, channels / groups, kernel, kernel]);
        let padding = kernel / 2;
        let out_side = (side + 2 * padding - kernel) / stride + 1;
        let y = half(&[images, outputs, out_side, out_side]);
        let attrs = |sizes: Option<usize>| {
            let all = |it: usize| Attr::from(&[it, it][..]);
            let window = [all(stride), all(1), all(padding), all(padding), groups.into()];
            Attrs::new(window.into_iter().chain(sizes.map(all)))
        };
        let times = [
            fastest(&backend, (ROUNDS, Precision::Strict), (&ops::CONV, &attrs(None)), &[&x, &w], &y),
            fastest(&backend, (ROUNDS, Precision::Strict), (&ops::CONV_INPUT_GRAD, &attrs(Some(side))), &[&y, &w], &x),
            fastest(
                &backend,
                (ROUNDS, Precision::Strict),
                (&ops::CONV_WEIGHT_GRAD, &attrs(Some(kernel))),
                &[&x, &y],
                &w,
            ),
        ];
        let what = format!("{images}x{channels}x{side}x{side} * {outputs}x{kernel}x{kernel} / {stride}, {groups}");
        println!("{what:40}{:12.1}{:12.1}{:12.1}", times[0], times[1], times[2]);
    }
}
