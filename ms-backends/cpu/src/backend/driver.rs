//! Runs the steps of plans as direct calls: [`CpuDriver`].

use crate::library;
use ms_compile::exec::{
    Check, ContractionOperand, Driver, EpilogueCall, KernelLaunch, KernelView, LibraryCall, MemoryView,
};
use ms_ir::Contraction;
use ms_ir::data::{Array, MemorySpace};
use ms_ir::error::Result;
use ms_x64::Isa;
use ms_x64::KernelCode;
use ms_x64::gemm::{self, Arithmetic, Epilogue, Results};
use ms_x64::threads;
use smallvec::SmallVec;
use std::sync::Arc;

/// A driver that runs the steps of plans synchronously on the CPU, in host memory.
#[derive(Clone, Copy, Debug)]
pub struct CpuDriver {
    pub(crate) isa: Isa,
}

/// Pairs the calls of epilogues with the code of their kernels.
fn own<'a>(calls: &[EpilogueCall<'a, Arc<dyn KernelCode>>]) -> SmallVec<[Epilogue<'a>; 2]> {
    calls.iter().map(|it| Epilogue { code: &**it.kernel, arguments: it.block, words: it.words }).collect()
}

// SAFETY: generated code, the interpreter, the GEMM library and the op library write every element of their results,
// which tests compare with the reference. Steps run synchronously, so they take effect in order.
unsafe impl Driver for CpuDriver {
    type Kernel = Arc<dyn KernelCode>;
    type Commands = ();
    const QUEUED: bool = false;

    #[inline]
    fn space(&self) -> MemorySpace {
        MemorySpace::Host
    }

    fn view<'k>(&self, kernel: &'k Self::Kernel) -> Option<KernelView<'k>> {
        KernelCode::view(&**kernel)
    }

    fn specialized(&self, kernel: &Self::Kernel, extents: &[u64]) -> Self::Kernel {
        kernel.specialized(extents).unwrap_or_else(|| kernel.clone())
    }

    fn specialized_together(&self, calls: &[(&Self::Kernel, &[u64])]) -> Vec<Self::Kernel> {
        let nanos = calls.iter().filter_map(|(kernel, extents)| kernel.nanos(extents)).fold(0, usize::saturating_add);
        // Short calls run as a single part, so their code needs no bookkeeping for partitions.
        let code = |&(kernel, extents): &(&Self::Kernel, &[u64])| match threads::is_short(nanos) {
            true => self.specialized(kernel, extents),
            false => kernel.clone(),
        };
        calls.iter().map(code).collect()
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

    #[inline]
    unsafe fn contract(
        &self,
        (): &mut (),
        contraction: &Arc<Contraction>,
        operands: [ContractionOperand<'_>; 2],
        result: u64,
    ) -> Result<()> {
        // SAFETY: by the contract of `contract`, the contraction is sound, and operands and result are valid memory.
        unsafe { gemm::run(self.isa, contraction, operands, Results::Memory(result as *mut u8)) }
    }

    unsafe fn contract_with(
        &self,
        (): &mut (),
        contraction: &Arc<Contraction>,
        operands: [ContractionOperand<'_>; 2],
        epilogues: &[EpilogueCall<'_, Self::Kernel>],
    ) -> Result<()> {
        // SAFETY: by the contract of `contract_with`, the contraction is sound, the operands are valid memory, and
        // every block is valid for its kernel.
        unsafe { gemm::run(self.isa, contraction, operands, Results::Epilogues(&own(epilogues))) }
    }

    unsafe fn library(
        &self,
        (): &mut (),
        call: &Arc<LibraryCall>,
        operands: &[MemoryView],
        results: &[MemoryView],
    ) -> Result<()> {
        // SAFETY: `library` has the contract of `library_with` without epilogues.
        unsafe { self.library_with(&mut (), call, operands, results, &[]) }
    }

    unsafe fn library_with(
        &self,
        (): &mut (),
        call: &Arc<LibraryCall>,
        operands: &[MemoryView],
        results: &[MemoryView],
        epilogues: &[EpilogueCall<'_, Self::Kernel>],
    ) -> Result<()> {
        // SAFETY: the addresses are the host's, and the memory is live during the call. Operands were written, and the
        // library retains no arrays.
        let borrowed = |it: &MemoryView| unsafe { it.borrowed() };
        let from: SmallVec<[Array; 4]> = operands.iter().map(borrowed).collect();
        let from: SmallVec<[&Array; 4]> = from.iter().collect();
        let to: SmallVec<[Array; 1]> = results.iter().map(borrowed).collect();
        let (arithmetic, epilogues) = (Arithmetic::new(self.isa, call.precision), own(epilogues));
        call.explained(operands, || {
            // SAFETY: by the contract of `library_with`, the op accepts the operands, nobody else accesses the results,
            // and every block is valid for its kernel.
            unsafe { library::run_with(arithmetic, call.op, &call.attrs, &from, &to, &epilogues) }
        })
    }

    unsafe fn check(&self, (): &mut (), check: &Arc<Check>, operand: &MemoryView) -> Result<()> {
        // SAFETY: by the contract of `check`, the operand was written, and nobody writes it during the call.
        unsafe { check.run(operand) }
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
