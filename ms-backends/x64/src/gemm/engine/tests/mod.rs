//! Tests the matrix engines and the GEMM on them: emulated on every machine, and native where the processor has an
//! engine.

mod accuracy;
mod instructions;
mod products;
mod threads;

pub use super::testing::{
    UNIFORM, check_threads, components, engines, engines_for, errors_of, floats, hash, split, sum_on,
};
use super::{Engine, Implementation};
use crate::gemm::{BatchedGemm, Epilogue, Results};
use crate::interp::Interpreted;
use crate::isa::Isa;
use ms_ir::data::{Array, DType, Scalar};
use ms_ir::{Contraction, ContractionRanks, ContractionTypes, Kernel, LoopArguments, Precision};
use ms_ir::{StepOperand, TileArguments};
use std::ptr::null_mut;

/// Returns the contraction of `[batch.., m, k]` and `[batch.., k, n]` to `out`.
fn contraction(precision: Precision, [a, b, out]: [&Array; 3]) -> Contraction {
    let types = ContractionTypes { a: a.dtype(), b: b.dtype(), accumulator: out.dtype().compute(), out: out.dtype() };
    let ranks = ContractionRanks { batch: out.layout().rank() - 2, k: 1 };
    let it = Contraction::new(types, precision, ranks, [a.layout(), b.layout(), out.layout()]);
    it.expect("the shapes fit")
}

/// Returns the operands of a contraction, with their storage, which a parameter may hold.
fn operands<'a>([a, b]: [&'a Array; 2]) -> [StepOperand<'a>; 2] {
    [a, b].map(|it| StepOperand { address: it.device_ptr() as u64, parameter_storage: Some(it.storage()) })
}

/// Multiplies into `out`: on a forced engine in any size, or on the engine that a program would choose.
fn multiply(engine: Option<Engine>, precision: Precision, [a, b, out]: [&Array; 3]) {
    let contraction = contraction(precision, [a, b, out]);
    // SAFETY: the layouts lie inside the arrays, and only this call accesses `out`.
    unsafe {
        let results = Results::Memory(out.device_ptr());
        let gemm = BatchedGemm::new(Isa::detect(), &contraction);
        gemm.run_on(engine, operands([a, b]), results, null_mut()).expect("there is memory");
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
    let words = TileArguments { loops: LoopArguments::of(&kernel), axes: 2, result: Some(2), by_rows };
    let code = Interpreted::new(kernel);
    let contraction = contraction(precision, [a, b, &out]);
    let epilogues = [Epilogue { code: &code, arguments: &arguments, words }];
    // SAFETY: the layouts lie inside the arrays. The kernel writes `out`, which nothing else accesses, at the indices
    // of the result.
    unsafe {
        let results = Results::Epilogues(&epilogues);
        let gemm = BatchedGemm::new(Isa::detect(), &contraction);
        gemm.run_on(Some(engine), operands([a, b]), results, null_mut()).expect("there is memory");
    }
    out
}

/// Each name of an instruction set stands for one way to multiply.
#[test]
fn engines_of_instruction_sets() {
    let engine = |isa| Engine::of_isa(isa, Implementation::Emulated);
    let (tiles, dots) = (Engine::Tiles(Implementation::Emulated), Engine::Dots(Implementation::Emulated));
    assert_eq!(Isa::ALL.map(engine), [tiles, dots, Engine::None, Engine::None, Engine::None]);
    for isa in Isa::ALL {
        let is_of_machine = Engine::of(isa) != Engine::None;
        assert!(!is_of_machine || engine(isa) != Engine::None, "{isa}");
    }
}
