//! Provides an entry point for fuzzers: bytes are either a stored program that can be loaded, or rejected.

use super::PlanExecutable;
use crate::exec::{Check, Driver, EpilogueCode, LibraryCall, PlanProgram, Prepared, StepCall, StoredProgram};
use ms_ir::Contraction;
use ms_ir::data::MemorySpace;
use ms_ir::error::Result;
use std::sync::Arc;

/// Decodes bytes as the stored program of a backend that runs plans, and returns whether they are valid. A valid plan
/// is then loaded or rejected, like one from a file.
pub fn stored_program(bytes: &[u8]) -> bool {
    let Some(program) = PlanProgram::read(bytes) else { return false };
    let mut written = Vec::new();
    program.write(&mut written);
    assert!(PlanProgram::read(&written).is_some_and(|it| it == program), "what is written is read as the same");
    let kernels = vec![(); program.plan.kernels.len()];
    // SAFETY: the executable is dropped without a run, so neither kernels nor steps execute.
    let _loaded_or_refused = unsafe { PlanExecutable::new(&program.plan, &kernels, Nothing) };
    true
}

/// A device that does nothing.
struct Nothing;

// SAFETY: `stored_program` never runs the executable, so no step is issued to this driver.
unsafe impl Driver for Nothing {
    type Kernel = ();
    type Contraction = ();
    type LibraryStep = ();
    type Commands = ();
    const QUEUED: bool = false;

    fn space(&self) -> MemorySpace {
        MemorySpace::Host
    }

    unsafe fn launch(&self, (): &mut (), (): &(), _: &[u64]) -> Result<()> {
        Ok(())
    }

    fn prepare_contraction(&self, _: &Contraction, _: &[EpilogueCode<'_, ()>]) -> Result<Prepared<()>> {
        Ok(Prepared { code: (), workspace: 0 })
    }

    fn prepare_library(&self, _: &Arc<LibraryCall>, _: &[EpilogueCode<'_, ()>]) -> Result<Prepared<()>> {
        Ok(Prepared { code: (), workspace: 0 })
    }

    unsafe fn contract(&self, (): &mut (), _: &Arc<()>, _: StepCall<'_>) -> Result<()> {
        Ok(())
    }

    unsafe fn library(&self, (): &mut (), _: &Arc<()>, _: StepCall<'_>) -> Result<()> {
        Ok(())
    }

    unsafe fn check(&self, (): &mut (), _: &Arc<Check>, _: u64, _: &[u64]) -> Result<()> {
        Ok(())
    }

    unsafe fn copy(&self, (): &mut (), _: u64, _: u64, _: usize) -> Result<()> {
        Ok(())
    }

    unsafe fn set_number(&self, (): &mut (), _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    unsafe fn condition(&self, (): &mut (), _: u64) -> Result<bool> {
        Ok(false)
    }

    unsafe fn numbers(&self, (): &mut (), _: &[u64], _: &mut [u64]) -> Result<()> {
        Ok(())
    }

    fn submit(&self, (): &mut ()) -> Result<()> {
        Ok(())
    }
}
