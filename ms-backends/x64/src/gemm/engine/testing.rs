//! Provides the order of sums of matrix engines, and comparisons of results, for tests of this crate and of ops that
//! multiply on them.

use super::kernel::{Split, component_products};
use super::split::MAX_COMPONENTS;
use super::{Engine, Implementation};
use crate::isa::Isa;
use half::bf16;
use ms_ir::Precision;
use ms_ir::data::{Array, DType, Element, Scalar};
use ms_ir::with_element;
use std::array::from_fn;
use std::io::Write;
use std::process::Command;
use std::sync::LazyLock;

/// Returns the engines that this machine can run. The list is printed once, even if test output is captured.
pub fn engines() -> &'static [Engine] {
    static ALL: LazyLock<Vec<Engine>> = LazyLock::new(|| {
        let mut all = vec![Engine::Tiles(Implementation::Emulated), Engine::Dots(Implementation::Emulated)];
        let of_processor = [Isa::Avx512Amx, Isa::Avx512Bf16].map(Engine::of);
        all.extend(of_processor.into_iter().filter(|it| *it != Engine::None));
        // Only the message is lost if stderr is closed.
        let _ = writeln!(std::io::stderr(), "products on units are tested on {all:?}");
        all
    });
    &ALL
}

/// Returns the engines that support operands with these numbers of split components.
pub fn engines_for(components: [usize; 2]) -> impl Iterator<Item = Engine> {
    engines().iter().copied().filter(move |it| it.supports(Split::Floats(components)))
}

/// Returns the elements as f32 in row-major order.
pub fn floats(x: &Array) -> Vec<f32> {
    x.on_host().expect("the elements are readable").scalars().into_iter().map(|it| it.as_f64() as f32).collect()
}

/// Returns the number of split components of an operand.
pub fn components(dtype: DType, precision: Precision) -> usize {
    match (dtype, precision) {
        (DType::F32, Precision::High) => 2,
        (DType::F32, Precision::Highest) => 3,
        _ => 1,
    }
}

/// Returns the sum of the products of a row and a column in the engine's order.
///
/// AMX has two accumulation chains for each K block of 32 and each component product, whose sum is added. AVX512-BF16
/// has one chain, which takes the second element of a pair first.
pub fn sum_on(
    engine: Engine,
    row: &[[f32; MAX_COMPONENTS]],
    column: &[[f32; MAX_COMPONENTS]],
    components: [usize; 2],
) -> f32 {
    if let Engine::Dots(_) = engine {
        let pairs = row.chunks(2).zip(column.chunks(2));
        let terms = pairs.flat_map(|(row, column)| row.iter().zip(column).rev());
        return terms.fold(0f32, |sum, (x, y)| x[0].mul_add(y[0], sum));
    }
    let mut sum = 0f32;
    for (row, column) in row.chunks(32).zip(column.chunks(32)) {
        for &[of_row, of_column] in component_products(components[0], components[1]) {
            let mut chains = [0f32; 2];
            for (at, (x, y)) in row.iter().zip(column).enumerate() {
                chains[at % 2] = x[of_row].mul_add(y[of_column], chains[at % 2]);
            }
            sum += chains[0] + chains[1];
        }
    }
    sum
}

/// Returns the split components of a number.
pub fn split(mut x: f32, components: usize) -> [f32; MAX_COMPONENTS] {
    from_fn(|it| {
        let rounded = if it < components { bf16::from_f32(x).to_f32() } else { 0.0 };
        x -= rounded;
        rounded
    })
}

/// Bounds of the maximum and the root mean square errors of `strict`, `highest`, `high` and `medium`, for uniform
/// elements in `[-1, 1]`.
pub const UNIFORM: [[f64; 2]; 4] = [[2e-7, 3e-8], [8e-8, 1.5e-8], [9e-7, 2e-7], [4e-4, 1.2e-4]];

/// Returns the maximum and the root mean square error of sums, relative to the sum of magnitudes. `sums` has pairs of
/// the exact sum and the sum of magnitudes.
pub fn errors_of(found: &[f32], sums: &[[f64; 2]]) -> [f64; 2] {
    assert_eq!(found.len(), sums.len());
    let errors = || found.iter().zip(sums).map(|(&it, [sum, magnitude])| (f64::from(it) - sum).abs() / magnitude);
    let squares: f64 = errors().map(|it| it * it).sum();
    [errors().fold(0.0, f64::max), (squares / found.len() as f64).sqrt()]
}

/// Returns the bits of a float after rounding to `dtype`.
pub fn canonical(value: Scalar, dtype: DType) -> u64 {
    match value.as_f64().is_nan() {
        true => u64::MAX,
        false => with_element!(dtype, T => T::from_scalar(value).to_scalar().to_bits(dtype)),
    }
}

/// Returns the bits of the elements as they are stored; all NaNs have the same.
pub fn bits(array: &Array) -> Vec<u64> {
    array
        .on_host()
        .expect("the elements are readable")
        .scalars()
        .into_iter()
        .map(|it| canonical(it, array.dtype()))
        .collect()
}

/// Returns a hash of the bits of the elements.
pub fn hash(x: &Array) -> u64 {
    bits(x).iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, it| (hash ^ it).wrapping_mul(0x0100_0000_01b3))
}

/// Runs an ignored test in processes with several numbers of threads, and compares the lines that it prints for
/// engines.
#[track_caller]
pub fn check_threads(test: &str) {
    let outputs = ["1", "2", "7"].map(|threads| {
        let output = Command::new(std::env::current_exe().expect("the test runs"))
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env("MS_NUM_THREADS", threads)
            .output()
            .expect("the test starts again");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(&format!("threads {threads}\n")), "{text}");
        let lines = text.lines().filter(|it| ["Tiles", "Dots", "None"].iter().any(|engine| it.starts_with(engine)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    });
    assert!(!outputs[0].is_empty() && outputs.iter().all(|it| *it == outputs[0]), "{outputs:#?}");
}
