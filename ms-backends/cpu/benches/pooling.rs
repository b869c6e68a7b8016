//! Measures max pooling and its gradients. `cargo bench -p ms-cpu --bench pooling`.

mod timing;

use ms_cpu::CpuBackend;
use ms_ir::Precision;
use ms_ir::data::{Array, Attr, Attrs};
use ms_ops::ops;
use timing::fastest;

/// The number of runs. The fastest one is printed.
const ROUNDS: usize = 200;

/// Batch size, channels and side; kernel size, stride and padding.
const CASES: [([usize; 3], [usize; 3]); 10] = [
    ([1, 64, 112], [3, 2, 1]),
    ([8, 64, 16], [3, 2, 1]),
    ([32, 6, 24], [2, 2, 0]),
    ([32, 16, 8], [2, 2, 0]),
    ([8, 64, 56], [2, 2, 0]),
    ([8, 64, 28], [3, 1, 1]),
    ([8, 64, 27], [3, 3, 0]),
    ([8, 64, 14], [5, 1, 2]),
    ([8, 64, 28], [13, 1, 6]),
    ([8, 256, 7], [7, 1, 0]),
];

/// Returns pseudorandom numbers.
fn mixed(shape: &[usize]) -> Array {
    let mut state = 1u64;
    let numbers = (0..shape.iter().product()).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    });
    Array::from_slice(shape, &numbers.collect::<Vec<_>>())
}

fn main() {
    let backend = CpuBackend::new();
    println!("{} on {}", backend.isa(), ms_cpu::threads::count());
    println!("{:40}{:>12}{:>12}{:>12}", "", "max us", "gradient us", "take us");
    for ([images, channels, side], [kernel, stride, padding]) in CASES {
        let out_side = (side + 2 * padding - kernel) / stride + 1;
        let (x, y) = (mixed(&[images, channels, side, side]), mixed(&[images, channels, out_side, out_side]));
        let attrs = Attrs::new([kernel, stride, 1, padding, padding].map(|it| Attr::from(&[it, it][..])));
        let (to_x, to_y) = (mixed(x.shape()), mixed(y.shape()));
        let times = [
            fastest(&backend, (ROUNDS, Precision::Strict), (&ops::MAX_POOL, &attrs), &[&x], &to_y),
            fastest(&backend, (ROUNDS, Precision::Strict), (&ops::MAX_POOL_GRAD, &attrs), &[&x, &y], &to_x),
            fastest(&backend, (ROUNDS, Precision::Strict), (&ops::MAX_POOL_TAKE, &attrs), &[&x, &x], &to_y),
        ];
        let what = format!("{images}x{channels}x{side}x{side}, {kernel}x{kernel} / {stride}, {padding}");
        println!("{what:40}{:12.1}{:12.1}{:12.1}", times[0], times[1], times[2]);
    }
}
