//! Implements the steps that are not kernels.

use crate::library;
use ms_compile::exec::{StepCode, StepOperand};
use ms_ir::data::{Array, Attrs, Op};
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Contraction, ContractionRanks, ContractionTypes, Precision};
use ms_ops::ops::host::check_positions;
use ms_x64::Isa;
use ms_x64::gemm::{Arithmetic, BatchedGemm, Results};

/// A contraction of operands with given types and ranks.
pub struct ContractionCode {
    pub isa: Isa,
    pub precision: Precision,
    pub types: ContractionTypes,
    pub ranks: ContractionRanks,
}

// SAFETY: the GEMM library writes every element of the result, which tests compare with the reference.
unsafe impl StepCode for ContractionCode {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        let (&[a, b], [out]) = (operands, results) else {
            return Err(Error::new(Code::Argument, "a contraction has two operands and one result"));
        };
        let dtypes = [a, b, out].map(|it| it.dtype());
        if dtypes != self.types.all() {
            let [a, b, out] = dtypes;
            return Err(Error::new(Code::DType, format!("the contraction is not of {a} and {b} to {out}")));
        }
        let layouts = [a.layout(), b.layout(), out.layout()];
        let contraction = Contraction::new(self.types, self.precision, self.ranks, layouts)?;
        // SAFETY: the layout of an array is inside its storage. By the contract of `StepCode::run`, nobody else
        // accesses the storage of the result.
        unsafe {
            let operands =
                [a, b].map(|it| StepOperand { address: it.device_ptr() as u64, parameter_storage: Some(it.storage()) });
            BatchedGemm::new(self.isa, &contraction).run_alone(operands, Results::Memory(out.device_ptr()))
        }
    }
}

/// An op of the library.
pub struct LibraryStep {
    pub arithmetic: Arithmetic,
    pub op: Op,
    pub attrs: Attrs,
}

// SAFETY: the library writes every element of the results, which tests compare with the reference, and retains no
// arrays.
unsafe impl StepCode for LibraryStep {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        // SAFETY: for operands and results, `StepCode::run` has the conditions of `library::run`.
        unsafe { library::run(self.arithmetic, self.op, &self.attrs, operands, results) }
    }
}

/// A bounds check of positions.
pub struct CheckStep {
    pub axis: usize,
}

// SAFETY: the check has no results and retains no arrays.
unsafe impl StepCode for CheckStep {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], _: &[Array]) -> Result<()> {
        let &[of, positions] = operands else {
            return Err(Error::new(Code::Argument, "a check has an operand and positions"));
        };
        check_positions(positions, self.axis, of.shape())
    }
}
