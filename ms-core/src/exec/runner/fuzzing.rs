//! Entry point of fuzzers: any bytes are either a stored program that can be loaded, or rejected.

use super::{Host, KernelCode, MatrixProduct, PlanExecutable};
use crate::error::Result;
use crate::exec::{PlanProgram, StoredProgram};
use crate::tensor::{Array, Attrs, Op};
use std::sync::Arc;

/// Reads bytes as the stored program of a backend that runs plans; returns whether they are valid. A plan is then
/// loaded, or rejected, as one from a file is.
pub fn stored_program(bytes: &[u8]) -> bool {
    let Some(program) = PlanProgram::read(bytes) else { return false };
    let mut written = Vec::new();
    program.write(&mut written);
    assert!(PlanProgram::read(&written).is_some_and(|it| it == program), "what is written is read as the same");
    let kernels: Vec<_> = program.plan.kernels.iter().map(|_| Arc::new(Nothing) as Arc<dyn KernelCode>).collect();
    // SAFETY: it is not executed.
    let _loaded_or_refused = unsafe { PlanExecutable::new(&program.plan, &kernels, Arc::new(Nothing)) };
    true
}

/// A device that does nothing.
struct Nothing;

// SAFETY: nothing of it is ever executed.
unsafe impl KernelCode for Nothing {
    unsafe fn call(&self, _: &[u64]) {}
}

// SAFETY: as above.
unsafe impl Host for Nothing {
    unsafe fn product(&self, _: &MatrixProduct, _: *const u8, _: *const u8, _: *mut u8) -> Result<()> {
        Ok(())
    }

    unsafe fn library(&self, _: Op, _: &Attrs, _: &[&Array], _: &[Array]) -> Result<()> {
        Ok(())
    }
}
