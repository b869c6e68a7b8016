//! Implements the steps that are not kernels.

use crate::library::EagerOp;
use ms_compile::exec::{StepCode, StepOperand, refusal};
use ms_ir::data::{Array, Attrs, Op};
use ms_ir::error::{Code, Error, Result};
use ms_ir::op::{NONE_REFUSED, definition};
use ms_ir::{Contraction, ContractionRanks, ContractionTypes, MapVec, Precision};
use ms_x64::gemm::{BatchedGemm, Results};
use ms_x64::{Isa, KernelCode};
use smallvec::SmallVec;
use std::sync::Arc;

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

// SAFETY: the library writes every element of the results, which tests compare with the reference, and retains no
// arrays.
unsafe impl StepCode for EagerOp {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        // SAFETY: for operands and results, `StepCode::run` has the conditions of `EagerOp::run`.
        unsafe { Self::run(self, operands, results, &[]) }
    }
}

/// A check of an operand: a kernel, and a look at its record.
pub struct CheckStep {
    pub kernel: Arc<dyn KernelCode>,
    /// The word in the kernel's argument block with the address of the record.
    pub record: usize,
    pub op: Op,
    pub attrs: Attrs,
}

// SAFETY: the check has no results and retains no arrays.
unsafe impl StepCode for CheckStep {
    unsafe fn run(&self, block: &[u64], operands: &[&Array], _: &[Array]) -> Result<()> {
        let mut record = NONE_REFUSED;
        let mut words: SmallVec<[u64; 24]> = block.into();
        words[self.record] = &raw mut record as u64;
        // SAFETY: for a kernel's argument block, `StepCode::run` has the conditions of `KernelCode::call`, and the
        // record is an i64 of this call.
        unsafe { self.kernel.call(&words) };
        if record == NONE_REFUSED { Ok(()) } else { Err(self.refusal(record, operands)) }
    }
}

impl CheckStep {
    /// Returns the error of the refused element at `record`.
    #[cold]
    fn refusal(&self, record: i64, operands: &[&Array]) -> Error {
        let types = operands.map_vec(|it| it.ty());
        let at = definition(self.op).checked_operand().expect("the op makes a check");
        refusal(self.op, &self.attrs, &types, record, &operands[at..]).unwrap_or_else(|it| it)
    }
}
