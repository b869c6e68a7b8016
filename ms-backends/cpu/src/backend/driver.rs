//! Runs the steps of plans as direct calls: [`CpuDriver`].

use crate::library::{self, LibraryCode, OpCall};
use ms_compile::exec::{
    ArrayLayout, Check, Driver, EpilogueCode, KernelLaunch, KernelView, LibraryCall, Prepared, StepCall, StepOperand,
    TileArguments,
};
use ms_ir::Contraction;
use ms_ir::data::{Array, MemorySpace};
use ms_ir::error::Result;
use ms_x64::Isa;
use ms_x64::KernelCode;
use ms_x64::gemm::{Arithmetic, BatchedGemm, Epilogue, Results};
use ms_x64::threads;
use smallvec::SmallVec;
use std::sync::Arc;

/// A driver that runs the steps of plans synchronously on the CPU, in host memory.
#[derive(Clone, Copy, Debug)]
pub struct CpuDriver {
    pub(crate) isa: Isa,
}

/// The epilogues of a step: the code of each kernel, and the words of its argument block that vary per tile.
struct EpilogueKernels(SmallVec<[(Arc<dyn KernelCode>, TileArguments); 1]>);

impl EpilogueKernels {
    fn new(epilogues: &[EpilogueCode<'_, Arc<dyn KernelCode>>]) -> Self {
        Self(epilogues.iter().map(|it| (it.code.clone(), it.words)).collect())
    }

    /// Returns the epilogues with the argument blocks of a call.
    fn with_blocks<'a>(&'a self, blocks: &[&'a [u64]]) -> SmallVec<[Epilogue<'a>; 2]> {
        let all = self.0.iter().zip(blocks);
        all.map(|((code, words), arguments)| Epilogue { code: &**code, arguments, words: *words }).collect()
    }
}

/// A prepared contraction.
pub struct CpuContraction {
    gemm: BatchedGemm,
    epilogues: EpilogueKernels,
}

/// A prepared library step.
pub struct CpuLibraryStep {
    call: Arc<LibraryCall>,
    /// The code; `None` for ops that are not prepared.
    code: Option<Box<dyn LibraryCode>>,
    epilogues: EpilogueKernels,
}

// SAFETY: generated code, the interpreter, the GEMM library and the op library write every element of their results,
// which tests compare with the reference. Steps run synchronously, so they take effect in order.
unsafe impl Driver for CpuDriver {
    type Kernel = Arc<dyn KernelCode>;
    type Contraction = CpuContraction;
    type LibraryStep = CpuLibraryStep;
    type Commands = ();
    const QUEUED: bool = false;

    #[inline]
    fn space(&self) -> MemorySpace {
        MemorySpace::Host
    }

    fn view<'k>(&self, kernel: &'k Self::Kernel) -> Option<KernelView<'k>> {
        KernelCode::view(&**kernel)
    }

    fn prepare_kernel(&self, KernelLaunch { kernel, block }: KernelLaunch<'_, Self::Kernel>) -> Self::Kernel {
        kernel.specialized(block).unwrap_or_else(|| kernel.clone())
    }

    fn prepare_kernels(&self, launches: &[KernelLaunch<'_, Self::Kernel>]) -> Vec<Self::Kernel> {
        let nanos = launches.iter().filter_map(|it| it.kernel.nanos(it.block)).fold(0, usize::saturating_add);
        // Short calls run as a single part, so their code needs no bookkeeping for partitions.
        let code = |&KernelLaunch { kernel, block }: &KernelLaunch<'_, Self::Kernel>| match threads::is_short(nanos) {
            true => self.prepare_kernel(KernelLaunch { kernel, block }),
            false => kernel.clone(),
        };
        launches.iter().map(code).collect()
    }

    #[inline]
    unsafe fn launch(&self, (): &mut (), kernel: &Self::Kernel, block: &[u64]) -> Result<()> {
        // SAFETY: `Driver::launch` has the same conditions as `KernelCode::call`.
        unsafe { kernel.call(block) };
        Ok(())
    }

    unsafe fn launch_together(&self, (): &mut (), launches: &[KernelLaunch<'_, Self::Kernel>]) -> Result<()> {
        // SAFETY: by the contract of `launch_together`, each launch is valid, and no launch accesses what another
        // writes.
        unsafe { threads::call_batch(launches) };
        Ok(())
    }

    fn prepare_contraction(
        &self,
        contraction: &Contraction,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<CpuContraction>> {
        let (gemm, epilogues) = (BatchedGemm::new(self.isa, contraction), EpilogueKernels::new(epilogues));
        let workspace = gemm.workspace();
        Ok(Prepared { code: CpuContraction { gemm, epilogues }, workspace })
    }

    fn prepare_library(
        &self,
        call: &Arc<LibraryCall>,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<CpuLibraryStep>> {
        let LibraryCall { op, ref attrs, precision, ref operands, ref results, .. } = **call;
        let arithmetic = Arithmetic::new(self.isa, precision);
        let code = library::prepare(arithmetic, op, attrs, operands, results)?;
        let workspace = code.as_ref().map_or(0, |it| it.workspace());
        let epilogues = EpilogueKernels::new(epilogues);
        Ok(Prepared { code: CpuLibraryStep { call: call.clone(), code, epilogues }, workspace })
    }

    fn implementation<'s>(&self, step: &'s CpuLibraryStep) -> Option<&'s str> {
        step.code.as_ref().map(|it| it.choice())
    }

    unsafe fn contract(&self, (): &mut (), code: &Arc<CpuContraction>, call: StepCall<'_>) -> Result<()> {
        let &[a, b] = call.operands else { unreachable!("a contraction has two operands") };
        let epilogues = code.epilogues.with_blocks(call.epilogues);
        let to = match call.results {
            &[result] => Results::Memory(result as *mut u8),
            _ => Results::Epilogues(&epilogues),
        };
        // SAFETY: by the contract of `contract`, the contraction is sound, operands and result are valid memory, and
        // every block is valid for its kernel.
        unsafe { code.gemm.run([a, b], to, call.workspace as *mut u8) }
    }

    unsafe fn library(&self, (): &mut (), code: &Arc<CpuLibraryStep>, call: StepCall<'_>) -> Result<()> {
        let step = &*code.call;
        let epilogues = code.epilogues.with_blocks(call.epilogues);
        if let Some(code) = &code.code {
            let StepCall { operands, results, workspace, .. } = call;
            let call = OpCall { operands, results, epilogues: &epilogues, workspace };
            // SAFETY: by the contract of `library`, the operands are live, nobody else accesses results and workspace,
            // and every block is valid for its kernel.
            return step.explained(|| unsafe { code.run(call) });
        }
        let held = |it: &StepOperand<'_>| it.parameter_storage.filter(|it| it.may_be_held()).is_some();
        let operand = |(it, &operand): (&ArrayLayout, &StepOperand<'_>)| {
            let operand = if held(&operand) { operand } else { StepOperand::at(operand.address) };
            // SAFETY: the addresses are the host's, and the memory is live during the call. Operands were written, and
            // the library retains no arrays.
            unsafe { it.borrowed(operand) }
        };
        let from: SmallVec<[Array; 4]> = step.operands.iter().zip(call.operands).map(operand).collect();
        let from: SmallVec<[&Array; 4]> = from.iter().collect();
        // SAFETY: the addresses are the host's, and the memory is live during the call. The library writes results
        // before it reads them.
        let result = |(it, &at): (&ArrayLayout, &u64)| unsafe { it.borrowed(StepOperand::at(at)) };
        let to: SmallVec<[Array; 1]> = step.results.iter().zip(call.results).map(result).collect();
        let arithmetic = Arithmetic::new(self.isa, step.precision);
        step.explained(|| {
            // SAFETY: by the contract of `library`, the op accepts the operands, nobody else accesses the results, and
            // every block is valid for its kernel.
            unsafe { library::run_arrays(arithmetic, step.op, &step.attrs, &from, &to, &epilogues) }
        })
    }

    #[inline]
    unsafe fn check(&self, (): &mut (), check: &Arc<Check>, record: u64, views: &[u64]) -> Result<()> {
        // SAFETY: by the contract of `check`, the record and the views are host memory that was written, and nobody
        // writes it during the call. The record may be unaligned.
        unsafe { check.result((record as *const i64).read_unaligned(), views) }
    }

    #[inline]
    unsafe fn copy(&self, (): &mut (), from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: by the contract of `copy`, both ranges are live and do not overlap.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
        Ok(())
    }

    #[inline]
    unsafe fn set_number(&self, (): &mut (), to: u64, number: u64) -> Result<()> {
        // SAFETY: by the contract of `set_number`, `to` is valid for a write of eight bytes. It may be unaligned.
        unsafe { (to as *mut u64).write_unaligned(number) };
        Ok(())
    }

    #[inline]
    unsafe fn condition(&self, (): &mut (), at: u64) -> Result<bool> {
        // SAFETY: by the contract of `condition`, the byte at `at` was written, and nobody writes it during the call.
        Ok(unsafe { *(at as *const u8) } != 0)
    }

    unsafe fn numbers(&self, (): &mut (), at: &[u64], to: &mut [u64]) -> Result<()> {
        for (&at, to) in at.iter().zip(to) {
            // SAFETY: by the contract of `numbers`, each address has eight bytes that were written. It may be
            // unaligned.
            *to = unsafe { (at as *const u64).read_unaligned() };
        }
        Ok(())
    }

    #[inline]
    fn submit(&self, (): &mut ()) -> Result<()> {
        Ok(())
    }
}
