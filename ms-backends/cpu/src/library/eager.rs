//! Runs library ops eagerly, on operands of any shapes.

use super::{LibraryCode, OpCall, has_implementations, prepare, run_arrays};
use ms_compile::exec::{ArrayLayout, StepOperand};
use ms_ir::data::{Array, Attrs, Layout, Op, Storage};
use ms_ir::error::Result;
use ms_x64::gemm::{Arithmetic, Epilogue};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError};

/// An op for eager execution, with the code for the latest shapes.
pub struct EagerOp {
    arithmetic: Arithmetic,
    op: Op,
    attrs: Attrs,
    has_implementations: bool,
    recent: Mutex<Option<Arc<Recent>>>,
}

/// Code with the layouts for which it was prepared.
struct Recent {
    layouts: SmallVec<[ArrayLayout; 4]>,
    code: Option<Box<dyn LibraryCode>>,
}

impl EagerOp {
    /// Describes an op.
    pub fn new(arithmetic: Arithmetic, op: Op, attrs: Attrs) -> Self {
        Self { arithmetic, op, attrs, has_implementations: has_implementations(op), recent: Mutex::new(None) }
    }

    /// Returns whether the latest run was of prepared code.
    #[cfg(test)]
    pub fn is_prepared(&self) -> bool {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.as_ref().is_some_and(|it| it.code.is_some())
    }

    /// Runs the op, then its epilogues; only image ops with one result have epilogues.
    ///
    /// # Safety
    /// The conditions of [`run_arrays`] hold. The conditions of the epilogues' code hold for the whole result.
    /// Epilogues may overwrite elements of the result that they read.
    ///
    /// # Errors
    /// See [`run_arrays`].
    pub unsafe fn run(&self, inputs: &[&Array], outputs: &[Array], epilogues: &[Epilogue<'_>]) -> Result<()> {
        let Self { arithmetic, op, ref attrs, has_implementations, ref recent } = *self;
        if !has_implementations {
            // SAFETY: the conditions hold by this function's contract.
            return unsafe { run_arrays(arithmetic, op, attrs, inputs, outputs, epilogues) };
        }
        let places = || inputs.iter().copied().chain(outputs).map(placed);
        let (layouts, addresses): (SmallVec<[_; 4]>, SmallVec<[u64; 4]>) = places().unzip();
        let mut known = recent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.as_ref().is_none_or(|it| it.layouts != layouts) {
            let (operands, results) = layouts.split_at(inputs.len());
            let code = prepare(arithmetic, op, attrs, operands, results)?;
            known = Some(Arc::new(Recent { layouts, code }));
            recent.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&known);
        }
        let code = known.as_ref().and_then(|it| it.code.as_ref());
        let (at, results) = addresses.split_at(inputs.len());
        // SAFETY: the conditions hold by this function's contract, and the workspace has its size.
        unsafe {
            let Some(code) = code else { return run_arrays(arithmetic, op, attrs, inputs, outputs, epilogues) };
            let mut operands = SmallVec::<[StepOperand<'_>; 4]>::new();
            for (&it, &address) in inputs.iter().zip(at) {
                it.on_host()?;
                operands.push(StepOperand { address, parameter_storage: Some(it.storage()) });
            }
            let room = Storage::uninit(code.workspace())?;
            let workspace = room.device_ptr() as u64;
            code.run(OpCall { operands: &operands, results, epilogues, workspace })
        }
    }
}

/// Returns the layout of an array relative to the lowest of its elements, and the address of that.
pub fn placed(array: &Array) -> (ArrayLayout, u64) {
    let (dtype, layout) = (array.dtype(), array.layout());
    let first = layout.range().0;
    let address = array.storage().device_ptr() as u64 + (first * dtype.size()) as u64;
    let (shape, strides) = (layout.shape().into(), layout.strides().into());
    (ArrayLayout { dtype, layout: Layout::new(shape, strides, layout.offset().saturating_sub(first)) }, address)
}
