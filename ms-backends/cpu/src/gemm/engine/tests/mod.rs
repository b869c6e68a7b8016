//! Tests the matrix engines and the GEMM on them: emulated on every machine, and native where the processor has an
//! engine.

pub mod accuracy;
mod instructions;
mod products;
pub mod threads;

use super::kernel::{Split, component_products};
use super::split::MAX_COMPONENTS;
use super::{Engine, Implementation};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::{dots, tiles};
use crate::gemm::{Epilogue, Results, run_on};
use crate::interp::Interpreted;
use crate::isa::Isa;
use half::bf16;
use ms_core::exec::{ContractionOperand, EpilogueWords};
use ms_core::ir::{Contraction, ContractionRanks, ContractionTypes, Kernel, LoopWords, Precision};
use ms_core::tensor::{Array, DType, Scalar};
use std::array::from_fn;
use std::io::Write;
use std::sync::LazyLock;

/// Returns the engines that this machine can run. The list is printed once, even if test output is captured.
pub fn engines() -> &'static [Engine] {
    static ALL: LazyLock<Vec<Engine>> = LazyLock::new(|| {
        let mut all = vec![Engine::Tiles(Implementation::Emulated), Engine::Dots(Implementation::Emulated)];
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if Isa::detect() == Isa::Avx512 {
            let of_processor = [
                (tiles::is_present(), Engine::Tiles(Implementation::Native)),
                (dots::is_present(), Engine::Dots(Implementation::Native)),
            ];
            all.extend(of_processor.into_iter().filter(|it| it.0).map(|it| it.1));
        }
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

/// Returns the contraction of `[batch.., m, k]` and `[batch.., k, n]` to `out`.
fn contraction(precision: Precision, [a, b, out]: [&Array; 3]) -> Contraction {
    let types = ContractionTypes { a: a.dtype(), b: b.dtype(), accumulator: out.dtype().compute(), out: out.dtype() };
    let ranks = ContractionRanks { batch: out.layout().rank() - 2, k: 1 };
    let it = Contraction::new(types, precision, ranks, [a.layout(), b.layout(), out.layout()]);
    it.expect("the shapes fit")
}

/// Returns the operands of a contraction, with their storage, which a parameter may hold.
fn operands<'a>([a, b]: [&'a Array; 2]) -> [ContractionOperand<'a>; 2] {
    [a, b].map(|it| ContractionOperand { address: it.device_ptr() as u64, held: Some(it.storage()) })
}

/// Multiplies into `out`: on a forced engine in any size, or on the engine that a program would choose.
fn multiply(engine: Option<Engine>, precision: Precision, [a, b, out]: [&Array; 3]) {
    let contraction = contraction(precision, [a, b, out]);
    // SAFETY: the layouts lie inside the arrays, and only this call accesses `out`.
    unsafe {
        let results = Results::Memory(out.device_ptr());
        run_on(engine, Isa::detect(), &contraction, operands([a, b]), results).expect("there is memory");
    }
}

/// Returns the product of `[batch.., m, k]` and `[batch.., k, n]` in an array with initial contents.
fn product(engine: Engine, precision: Precision, a: &Array, b: &Array, dtype: DType) -> Array {
    let mut shape = a.shape_owned();
    let rank = shape.len();
    shape[rank - 1] = b.shape()[rank - 1];
    let out = Array::full(&shape, Scalar::Int(1), dtype);
    multiply(Some(engine), precision, [a, b, &out]);
    out
}

/// Returns twice the product, computed by an epilogue kernel that reads output tiles; with `by_rows`, tiles of whole
/// rows.
fn doubled(engine: Engine, precision: Precision, a: &Array, b: &Array, dtype: DType, by_rows: bool) -> Array {
    let [m, n] = [a.shape()[0], b.shape()[1]];
    let name = dtype.to_string();
    let text = format!(
        "kernel par=1 lanes=parallel seq=0 in %x: {name} unit out %y: {name} unit
         point: x = load %x y = add x, x store %y, y"
    );
    let kernel = Kernel::parse(&text).expect("the kernel is valid");
    let out = Array::full(&[m, n], Scalar::Int(1), dtype);
    let size = dtype.size() as u64;
    let arguments = [m as u64, n as u64, 0, 0, 0, out.device_ptr() as u64, n as u64 * size, size];
    let words = EpilogueWords { loops: LoopWords::of(&kernel), axes: 2, result: Some(2), by_rows };
    let code = Interpreted::new(kernel);
    let contraction = contraction(precision, [a, b, &out]);
    let epilogues = [Epilogue { code: &code, arguments: &arguments, words }];
    // SAFETY: the layouts lie inside the arrays. The kernel writes `out`, which nothing else accesses, at the indices
    // of the result.
    unsafe {
        let results = Results::Epilogues(&epilogues);
        run_on(Some(engine), Isa::detect(), &contraction, operands([a, b]), results).expect("there is memory");
    }
    out
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
