//! Runs the steps of plans, and single steps, as soon as they are issued.

use super::memory::Heap;
use ms_compile::exec::{Check, Driver, EpilogueCode, LibraryCall, Prepared, StepCall, StepCode, StepOperand, refusal};
use ms_ir::data::{Array, Attrs, MemorySpace, Op};
use ms_ir::error::{Code, Error, Result};
use ms_ir::op::{NONE_REFUSED, definition};
use ms_ir::{Contraction, ContractionRanks, ContractionTypes, Precision};
use ms_x64::gemm::{BatchedGemm, Results};
use ms_x64::interp::Interpreted;
use ms_x64::{Isa, KernelCode};
use std::sync::Arc;

/// The driver of the device.
pub struct HeapDriver;

/// Evaluates an op by its definition, and writes its results.
///
/// # Safety
/// The op's type rule accepts the operands and infers the types of the row-major results, which nothing else accesses.
/// The addresses of results are the host's.
unsafe fn evaluate(op: Op, attrs: &Attrs, operands: &[Array], results: &[Array]) -> Result<()> {
    let made = (definition(op).eval)(attrs, &operands.iter().collect::<Vec<_>>())?;
    for (from, to) in made.iter().zip(results) {
        assert_eq!(from.ty(), to.ty(), "the definition of `{}` has the types of its rule", op.name());
        let from = from.on_host()?.to_contiguous().into_host()?;
        let bytes = from.bytes();
        // SAFETY: the result is row-major and has the type of `from`, by this function's contract.
        unsafe { to.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(())
}

/// Refuses epilogues, which the target does not have.
fn without(epilogues: &[EpilogueCode<'_, Arc<Interpreted>>]) -> Result<()> {
    match epilogues {
        [] => Ok(()),
        _ => Err(Error::new(Code::Backend, "the device has no epilogues")),
    }
}

// SAFETY: the interpreter, the products of `ms-x64` and the definitions of ops write all elements of their results, and
// access no other memory. Steps run when they are issued, so they take effect in order.
unsafe impl Driver for HeapDriver {
    type Kernel = Arc<Interpreted>;
    type Contraction = BatchedGemm;
    type LibraryStep = Arc<LibraryCall>;
    type Commands = ();
    const QUEUED: bool = false;

    fn space(&self) -> MemorySpace {
        MemorySpace::Device(&Heap)
    }

    unsafe fn launch(&self, (): &mut (), kernel: &Arc<Interpreted>, block: &[u64]) -> Result<()> {
        // SAFETY: `Driver::launch` has the conditions of `KernelCode::call`.
        unsafe { kernel.call(block) };
        Ok(())
    }

    fn prepare_contraction(
        &self,
        contraction: &Contraction,
        epilogues: &[EpilogueCode<'_, Arc<Interpreted>>],
    ) -> Result<Prepared<BatchedGemm>> {
        without(epilogues)?;
        let code = BatchedGemm::new(Isa::detect(), contraction);
        Ok(Prepared { workspace: code.workspace(), code })
    }

    fn prepare_library(
        &self,
        call: &Arc<LibraryCall>,
        epilogues: &[EpilogueCode<'_, Arc<Interpreted>>],
    ) -> Result<Prepared<Arc<LibraryCall>>> {
        without(epilogues)?;
        Ok(Prepared { code: call.clone(), workspace: 0 })
    }

    unsafe fn contract(&self, (): &mut (), code: &Arc<BatchedGemm>, call: StepCall<'_>) -> Result<()> {
        let (&[a, b], &[result]) = (call.operands, call.results) else { unreachable!("two operands and a result") };
        let operands = [a, b].map(|it| StepOperand::at(it.address));
        // SAFETY: by the contract of `contract`, the contraction is sound, and its memory is valid.
        unsafe { code.run(operands, Results::Memory(result as *mut u8), call.workspace as *mut u8) }
    }

    unsafe fn library(&self, (): &mut (), code: &Arc<Arc<LibraryCall>>, call: StepCall<'_>) -> Result<()> {
        let operands = code.operands.iter().zip(call.operands);
        // SAFETY: the memory is live during the call, and the host can read it. Operands were written.
        let operands: Vec<Array> =
            operands.map(|(it, at)| unsafe { it.borrowed(StepOperand::at(at.address)) }).collect();
        let results = code.results.iter().zip(call.results);
        // SAFETY: the memory is live during the call. Results are written before they are read.
        let results: Vec<Array> = results.map(|(it, &at)| unsafe { it.borrowed(StepOperand::at(at)) }).collect();
        // SAFETY: by the contract of `library`, the types are those of the op, and nothing else accesses the results.
        code.explained(|| unsafe { evaluate(code.op, &code.attrs, &operands, &results) })
    }

    unsafe fn check(&self, (): &mut (), check: &Arc<Check>, record: u64, views: &[u64]) -> Result<()> {
        // SAFETY: by the contract of `check`, the record and the views were written. The host can read them.
        unsafe { check.result((record as *const i64).read_unaligned(), views) }
    }

    unsafe fn copy(&self, (): &mut (), from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: by the contract of `copy`, both ranges are live and do not overlap.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
        Ok(())
    }

    unsafe fn set_number(&self, (): &mut (), to: u64, number: u64) -> Result<()> {
        // SAFETY: by the contract of `set_number`, `to` is valid for a write of eight bytes.
        unsafe { (to as *mut u64).write_unaligned(number) };
        Ok(())
    }

    unsafe fn condition(&self, (): &mut (), at: u64) -> Result<bool> {
        // SAFETY: by the contract of `condition`, the bool at `at` was written.
        Ok(unsafe { *(at as *const u8) } != 0)
    }

    unsafe fn numbers(&self, (): &mut (), at: &[u64], to: &mut [u64]) -> Result<()> {
        for (&at, to) in at.iter().zip(to) {
            // SAFETY: by the contract of `numbers`, the number at `at` was written.
            *to = unsafe { (at as *const u64).read_unaligned() };
        }
        Ok(())
    }

    fn submit(&self, (): &mut ()) -> Result<()> {
        Ok(())
    }
}

/// A kernel as a single step.
pub struct KernelStep(pub Interpreted);

// SAFETY: the interpreter writes the elements that the kernel stores.
unsafe impl StepCode for KernelStep {
    unsafe fn run(&self, block: &[u64], _: &[&Array], _: &[Array]) -> Result<()> {
        // SAFETY: for a kernel's block, `StepCode::run` has the conditions of `KernelCode::call`.
        unsafe { self.0.call(block) };
        Ok(())
    }
}

/// A contraction as a single step.
pub struct ContractionStep {
    pub precision: Precision,
    pub types: ContractionTypes,
    pub ranks: ContractionRanks,
}

// SAFETY: the products of `ms-x64` write all elements of their results.
unsafe impl StepCode for ContractionStep {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        let (&[a, b], [out]) = (operands, results) else { unreachable!("two operands and a result") };
        let layouts = [a.layout(), b.layout(), out.layout()];
        let contraction = Contraction::new(self.types, self.precision, self.ranks, layouts)?;
        let operands = [a, b].map(|it| StepOperand::at(it.device_ptr() as u64));
        // SAFETY: the layouts of arrays are inside their blocks. By the contract of `StepCode::run`, the arrays have the
        // types of the step, and nobody else accesses the result.
        unsafe { BatchedGemm::new(Isa::detect(), &contraction).run_alone(operands, Results::Memory(out.device_ptr())) }
    }
}

/// An op as a single step.
pub struct OpStep {
    pub op: Op,
    pub attrs: Attrs,
}

// SAFETY: the definition of the op returns all elements of its results.
unsafe impl StepCode for OpStep {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        let operands = operands.iter().map(|it| Ok(it.on_host()?.into_array())).collect::<Result<Vec<Array>>>()?;
        // SAFETY: `StepCode::run` has the conditions of `evaluate`.
        unsafe { evaluate(self.op, &self.attrs, &operands, results) }
    }
}

/// A check of an operand as a single step.
pub struct CheckStep {
    pub kernel: Interpreted,
    /// The word of the kernel's block with the address of the record.
    pub record: usize,
    pub op: Op,
    pub attrs: Attrs,
}

// SAFETY: the check has no results.
unsafe impl StepCode for CheckStep {
    unsafe fn run(&self, block: &[u64], operands: &[&Array], _: &[Array]) -> Result<()> {
        let (mut record, mut block) = (NONE_REFUSED, block.to_vec());
        block[self.record] = &raw mut record as u64;
        // SAFETY: for a kernel's block, `StepCode::run` has the conditions of `KernelCode::call`. The record is an i64.
        unsafe { self.kernel.call(&block) };
        if record == NONE_REFUSED {
            return Ok(());
        }
        let types: Vec<_> = operands.iter().map(|it| it.ty()).collect();
        let checked = definition(self.op).checked_operand().expect("the op has a check");
        Err(refusal(self.op, &self.attrs, &types, record, &operands[checked..])?)
    }
}
