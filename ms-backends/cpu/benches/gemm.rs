//! Measures GEMMs in strict order against the fastest ones, interleaved. The fastest ones differ between vector code
//! and matrix engines.
//! `cargo bench -p ms-cpu --bench gemm`, optionally with `MS_NUM_THREADS` and `MS_CPU_ISA`.

use ms_compile::exec::Backend;
use ms_compile::lower::eager::Step;
use ms_cpu::CpuBackend;
use ms_ir::data::{Array, DType, Scalar};
use ms_ir::{ContractionRanks, ContractionTypes, Precision};
use std::time::{Duration, Instant};

/// The number of pairs of runs. The fastest ones are printed.
const ROUNDS: usize = 25;

/// The layout of an operand: row-major or transposed.
#[derive(Clone, Copy)]
enum Lies {
    Dense,
    Turned,
}

fn operand([rows, columns]: [usize; 2], lies: Lies, dtype: DType) -> Array {
    match lies {
        Lies::Dense => Array::full(&[rows, columns], Scalar::Float(0.5), dtype),
        Lies::Turned => {
            let turned = Array::full(&[columns, rows], Scalar::Float(0.5), dtype);
            turned.with_layout(turned.layout().permute(&[1, 0]))
        }
    }
}

fn time(backend: &CpuBackend, precision: Precision, operands: &[Array; 3], runs: usize) -> Duration {
    let [a, b, out] = operands;
    let (types, ranks) = (ContractionTypes::of(out.dtype()), ContractionRanks { batch: 0, k: 1 });
    let step = Step::Contraction { precision, types, ranks };
    let product = backend.compile_step(&step).expect("the backend runs it");
    let start = Instant::now();
    for _ in 0..runs {
        // SAFETY: the result has the type of the product and is not shared.
        unsafe { product.run(&[], &[a, b], std::slice::from_ref(out)) }.expect("the operands fit");
    }
    start.elapsed() / runs as u32
}

fn main() {
    use Lies::{Dense, Turned};
    let backend = CpuBackend::new();
    println!("{} on {}", backend.isa(), ms_cpu::threads::count());
    println!(
        "{:>5}{:>6}{:>6}{:>6} {:6}{:>12}{:>12}{:>8}",
        "dtype", "m", "k", "n", "", "ordered us", "fastest us", "speed"
    );
    let mut cases = Vec::new();
    for (dtype, sizes) in [(DType::F32, &[8usize, 32, 64, 128, 256, 512, 1024][..]), (DType::F64, &[256, 512, 1024])] {
        cases.extend(sizes.iter().map(|&it| (dtype, [it; 3], Dense, Dense)));
        cases.extend(sizes.iter().filter(|it| **it >= 64).map(|&it| (dtype, [it; 3], Dense, Turned)));
        cases.extend(sizes.iter().filter(|it| **it >= 256).map(|&it| (dtype, [it; 3], Turned, Dense)));
    }
    for [m, k, n] in
        [[1, 1024, 1024], [1024, 1024, 1], [64, 512, 2048], [2048, 64, 512], [32, 4096, 32], [1, 1 << 20, 1]]
    {
        cases.extend([Dense, Turned].map(|it| (DType::F32, [m, k, n], Dense, it)));
    }
    cases.extend([DType::BF16, DType::F16].map(|it| (it, [256; 3], Dense, Dense)));
    for (dtype, [m, k, n], a_lies, b_lies) in cases {
        let operands = [operand([m, k], a_lies, dtype), operand([k, n], b_lies, dtype), operand([m, n], Dense, dtype)];
        let runs = (20_000_000 / (m * k * n)).clamp(1, 2000);
        let mut times = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            for (precision, times) in [Precision::Strict, Precision::Highest].into_iter().zip(&mut times) {
                *times = (*times).min(time(&backend, precision, &operands, runs));
            }
        }
        let [ordered, fastest] = times.map(|it| it.as_secs_f64() * 1e6);
        let lies = [a_lies, b_lies].map(|it| if matches!(it, Dense) { "" } else { "ᵀ" });
        let lies = format!("a{} b{}", lies[0], lies[1]);
        println!(
            "{:>5}{m:>6}{k:>6}{n:>6} {lies:6}{ordered:12.2}{fastest:12.2}{:8.2}",
            dtype.to_string(),
            fastest / ordered
        );
    }
}
