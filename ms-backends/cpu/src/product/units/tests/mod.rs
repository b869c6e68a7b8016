//! Tests of the models of units and of what uses them: on the models everywhere, and on the processor where it has a
//! unit.

pub mod accuracy;
mod instructions;
mod products;
pub mod threads;

use super::kernel::{Terms, products};
use super::split::PLANES;
use super::{By, Units};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::{dots, tiles};
use crate::interp::Interpreted;
use crate::isa::Isa;
use crate::product::{Epilogue, Results, run_on};
use half::bf16;
use ms_core::exec::{ContractionOperand, EpilogueWords};
use ms_core::ir::{Contraction, ContractionRanks, ContractionTypes, Kernel, LoopWords, Precision};
use ms_core::tensor::{Array, DType, Scalar};
use std::array::from_fn;
use std::io::Write;
use std::sync::LazyLock;

/// What runs the instructions on this machine, which is printed once, also where tests do not print.
pub fn units() -> &'static [Units] {
    static ALL: LazyLock<Vec<Units>> = LazyLock::new(|| {
        let mut all = vec![Units::Tiles(By::Model), Units::Dots(By::Model)];
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if Isa::detect() == Isa::Avx512 {
            let of_processor =
                [(tiles::is_present(), Units::Tiles(By::Processor)), (dots::is_present(), Units::Dots(By::Processor))];
            all.extend(of_processor.into_iter().filter(|it| it.0).map(|it| it.1));
        }
        // A run without this line is none the worse.
        let _ = writeln!(std::io::stderr(), "products on units are tested on {all:?}");
        all
    });
    &ALL
}

/// Those that multiply operands of so many planes.
pub fn units_of(planes: [usize; 2]) -> impl Iterator<Item = Units> {
    units().iter().copied().filter(move |it| it.multiplies(Terms::Floats(planes)))
}

/// The contraction of `[batch.., m, k]` and `[batch.., k, n]` to `out`.
fn contraction(precision: Precision, [a, b, out]: [&Array; 3]) -> Contraction {
    let types = ContractionTypes { a: a.dtype(), b: b.dtype(), accumulator: out.dtype().compute(), out: out.dtype() };
    let ranks = ContractionRanks { batch: out.layout().rank() - 2, k: 1 };
    let it = Contraction::new(types, precision, ranks, [a.layout(), b.layout(), out.layout()]);
    it.expect("the shapes fit")
}

/// The operands of a contraction, in the blocks that slots may hold.
fn operands<'a>([a, b]: [&'a Array; 2]) -> [ContractionOperand<'a>; 2] {
    [a, b].map(|it| ContractionOperand { address: it.device_ptr() as u64, held: Some(it.storage()) })
}

/// Multiplies to `out`, on units in any size, or as a program does.
fn multiply(units: Option<Units>, precision: Precision, [a, b, out]: [&Array; 3]) {
    let contraction = contraction(precision, [a, b, out]);
    // SAFETY: the layouts are inside the arrays, and `out` is not shared.
    unsafe {
        let results = Results::Memory(out.device_ptr());
        run_on(units, Isa::detect(), &contraction, operands([a, b]), results).expect("there is memory");
    }
}

/// The product of `[batch.., m, k]` and `[batch.., k, n]` in an array that was filled before.
fn product(units: Units, precision: Precision, a: &Array, b: &Array, dtype: DType) -> Array {
    let mut shape = a.shape_owned();
    let rank = shape.len();
    shape[rank - 1] = b.shape()[rank - 1];
    let out = Array::full(&shape, Scalar::Int(1), dtype);
    multiply(Some(units), precision, [a, b, &out]);
    out
}

/// Twice the product, by a kernel that reads it in parts, of whole rows if so it says.
fn doubled(units: Units, precision: Precision, a: &Array, b: &Array, dtype: DType, by_rows: bool) -> Array {
    let [m, n] = [a.shape()[0], b.shape()[1]];
    let name = dtype.to_string();
    let text = format!(
        "kernel par=1 lanes=parallel seq=0 in %x: {name} unit out %y: {name} unit
         point: x = load %x y = add x, x store %y, y"
    );
    let kernel = Kernel::parse(&text).expect("the kernel is valid");
    let out = Array::full(&[m, n], Scalar::Int(1), dtype);
    let size = dtype.size() as u64;
    let block = [m as u64, n as u64, 0, 0, 0, out.device_ptr() as u64, n as u64 * size, size];
    let words = EpilogueWords { loops: LoopWords::of(&kernel), axes: 2, result: Some(2), by_rows };
    let code = Interpreted::new(kernel);
    let contraction = contraction(precision, [a, b, &out]);
    let epilogues = [Epilogue { code: &code, block: &block, words }];
    // SAFETY: the layouts are inside the arrays; the kernel writes `out`, which is not shared, at the indices of the
    // result.
    unsafe {
        let results = Results::Epilogues(&epilogues);
        run_on(Some(units), Isa::detect(), &contraction, operands([a, b]), results).expect("there is memory");
    }
    out
}

/// The elements as f32, row by row.
pub fn floats(x: &Array) -> Vec<f32> {
    x.on_host().expect("the elements are readable").scalars().into_iter().map(|it| it.as_f64() as f32).collect()
}

/// The number of planes of an operand.
pub fn planes(dtype: DType, precision: Precision) -> usize {
    match (dtype, precision) {
        (DType::F32, Precision::High) => 2,
        (DType::F32, Precision::Highest) => 3,
        _ => 1,
    }
}

/// The sum of the products of a row and a column of so many planes, as a unit adds them. Tiles: for each 32 terms and each
/// product of planes two chains, whose sum is added. Dot products: one chain, in which pairs are turned.
pub fn sum_on(unit: Units, row: &[[f32; PLANES]], column: &[[f32; PLANES]], planes: [usize; 2]) -> f32 {
    if let Units::Dots(_) = unit {
        let pairs = row.chunks(2).zip(column.chunks(2));
        let terms = pairs.flat_map(|(row, column)| row.iter().zip(column).rev());
        return terms.fold(0f32, |sum, (x, y)| x[0].mul_add(y[0], sum));
    }
    let mut sum = 0f32;
    for (row, column) in row.chunks(32).zip(column.chunks(32)) {
        for &[of_row, of_column] in products(planes[0], planes[1]) {
            let mut chains = [0f32; 2];
            for (at, (x, y)) in row.iter().zip(column).enumerate() {
                chains[at % 2] = x[of_row].mul_add(y[of_column], chains[at % 2]);
            }
            sum += chains[0] + chains[1];
        }
    }
    sum
}

/// The planes of a number.
pub fn split(mut x: f32, planes: usize) -> [f32; PLANES] {
    from_fn(|it| {
        let rounded = if it < planes { bf16::from_f32(x).to_f32() } else { 0.0 };
        x -= rounded;
        rounded
    })
}
