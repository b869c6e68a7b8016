//! [`CpuDriver`]: steps of plans are calls.

use crate::cut;
use crate::isa::Isa;
use crate::kernel::KernelCode;
use crate::library;
use crate::product::{self, Arithmetic, Epilogue, Results};
use ms_core::error::Result;
use ms_core::exec::{
    Check, ContractionOperand, Driver, EpilogueCall, KernelLaunch, KernelView, LibraryCall, MemoryView,
};
use ms_core::ir::Contraction;
use ms_core::tensor::{Array, MemorySpace};
use smallvec::SmallVec;
use std::sync::Arc;

/// Runs the steps of plans on the processor, when they are issued, on memory of the host.
#[derive(Clone, Copy, Debug)]
pub struct CpuDriver {
    pub(crate) isa: Isa,
}

/// Calls of epilogues with the code of their kernels.
fn own<'a>(calls: &[EpilogueCall<'a, Arc<dyn KernelCode>>]) -> SmallVec<[Epilogue<'a>; 2]> {
    calls.iter().map(|it| Epilogue { code: &**it.kernel, block: it.block, words: it.words }).collect()
}

// SAFETY: generated code, the interpreter, products and the library write all elements of results, which their tests
// compare with the reference.
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
        kernel.at(extents).unwrap_or_else(|| kernel.clone())
    }

    fn specialized_together(&self, calls: &[(&Self::Kernel, &[u64])]) -> Vec<Self::Kernel> {
        let nanos = calls.iter().filter_map(|(kernel, extents)| kernel.nanos(extents)).fold(0, usize::saturating_add);
        // Code for short calls is not cut, nor are calls counted.
        let code = |&(kernel, extents): &(&Self::Kernel, &[u64])| match cut::is_short(nanos) {
            true => self.specialized(kernel, extents),
            false => kernel.clone(),
        };
        calls.iter().map(code).collect()
    }

    #[inline]
    unsafe fn launch(&self, (): &mut (), kernel: &Self::Kernel, block: &[u64]) -> Result<()> {
        // SAFETY: the caller's contract is the same.
        unsafe { kernel.call(block) };
        Ok(())
    }

    unsafe fn launch_together(&self, (): &mut (), launches: &[KernelLaunch<'_, Self::Kernel>]) -> Result<()> {
        // SAFETY: the caller's contract is the same.
        unsafe { cut::call_together(launches) };
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
        // SAFETY: the caller's contract is the same.
        unsafe { product::run(self.isa, contraction, operands, Results::Memory(result as *mut u8)) }
    }

    unsafe fn contract_with(
        &self,
        (): &mut (),
        contraction: &Arc<Contraction>,
        operands: [ContractionOperand<'_>; 2],
        epilogues: &[EpilogueCall<'_, Self::Kernel>],
    ) -> Result<()> {
        // SAFETY: the caller's contract is the same.
        unsafe { product::run(self.isa, contraction, operands, Results::Epilogues(&own(epilogues))) }
    }

    unsafe fn library(
        &self,
        (): &mut (),
        call: &Arc<LibraryCall>,
        operands: &[MemoryView],
        results: &[MemoryView],
    ) -> Result<()> {
        // SAFETY: the caller's contract is the same.
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
        // SAFETY: the memory is live during the call, operands are written, and the library retains no arrays.
        let borrowed = |it: &MemoryView| unsafe { it.borrowed() };
        let from: SmallVec<[Array; 4]> = operands.iter().map(borrowed).collect();
        let from: SmallVec<[&Array; 4]> = from.iter().collect();
        let to: SmallVec<[Array; 1]> = results.iter().map(borrowed).collect();
        let (arithmetic, epilogues) = (Arithmetic::new(self.isa, call.precision), own(epilogues));
        call.explained(operands, || {
            // SAFETY: the caller's contract is the same.
            unsafe { library::run_with(arithmetic, call.op, &call.attrs, &from, &to, &epilogues) }
        })
    }

    unsafe fn check(&self, (): &mut (), check: &Arc<Check>, operand: &MemoryView) -> Result<()> {
        // SAFETY: as the caller's.
        unsafe { check.run(operand) }
    }

    #[inline]
    unsafe fn copy(&self, (): &mut (), from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: as the caller's.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
        Ok(())
    }

    #[inline]
    unsafe fn set_number(&self, (): &mut (), to: u64, number: u64) -> Result<()> {
        // SAFETY: as the caller's.
        unsafe { (to as *mut u64).write_unaligned(number) };
        Ok(())
    }

    #[inline]
    unsafe fn condition(&self, (): &mut (), at: u64) -> Result<bool> {
        // SAFETY: as the caller's.
        Ok(unsafe { *(at as *const u8) } != 0)
    }

    unsafe fn numbers(&self, (): &mut (), at: &[u64], to: &mut [u64]) -> Result<()> {
        for (&at, to) in at.iter().zip(to) {
            // SAFETY: as the caller's.
            *to = unsafe { (at as *const u64).read_unaligned() };
        }
        Ok(())
    }

    #[inline]
    fn submit(&self, (): &mut ()) -> Result<()> {
        Ok(())
    }
}
