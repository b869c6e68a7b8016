//! Checks of operands.

use super::Arrays;
use super::code::{Ready, ready};
use ms_compile::exec::{Backend, StepCode};
use ms_compile::lower::eager::{self, Call};
use ms_ir::error::Result;
use ms_ops::ops::OpDef;
use ms_ops::tensor::{Array, Attrs, DType, Layout};
use smallvec::SmallVec;
use std::sync::Arc;

/// The check of an operand of some layout.
pub(super) struct Check {
    call: Call,
    ready: Ready,
    /// The number of the operand.
    operand: usize,
    /// The numbers on which the check depends.
    sizes: SmallVec<[u64; 2]>,
}

impl Check {
    /// Prepares the check that an op makes of an operand; `None` if it makes none.
    ///
    /// # Errors
    /// The errors of compiling code.
    pub fn new(
        backend: &dyn Backend,
        def: &'static OpDef,
        attrs: &Attrs,
        operands: &Arrays<'_>,
    ) -> Result<Option<Self>> {
        let Some(operand) = def.checked_operand() else { return Ok(None) };
        let sizes: SmallVec<[u64; 2]> =
            def.check_sizes(attrs, |it| operands[it].shape()).iter().map(|&it| it as u64).collect();
        let checked = operands[operand];
        let call = eager::prepare_check(def, attrs, (checked.layout(), checked.dtype()), sizes.len());
        let ready = ready(backend, &call.key)?;
        Ok(Some(Self { call, ready, operand, sizes }))
    }

    /// Fails if the check refuses an element of an operand of this layout.
    ///
    /// # Errors
    /// The error of the op; the errors of the device.
    pub fn run(&self, operands: &Arrays<'_>) -> Result<()> {
        let checked = operands[self.operand];
        if checked.numel() == 0 {
            return Ok(());
        }
        let addresses = [0, checked.device_ptr() as u64, 0];
        let block = self.call.block(addresses, &self.sizes, self.ready.words);
        // SAFETY: the call was prepared for an operand of this layout, which is live.
        unsafe { self.ready.code.run(&block, operands, &[]) }
    }
}

/// The check of dense indices of any number, along an axis of any size.
pub(super) struct DenseCheck(Arc<dyn StepCode>);

impl DenseCheck {
    /// Prepares the check of indices of this dtype.
    ///
    /// # Errors
    /// The errors of compiling code.
    pub fn new(backend: &dyn Backend, def: &'static OpDef, attrs: &Attrs, dtype: DType) -> Result<Self> {
        // Two elements represent any number of them.
        let call = eager::prepare_check(def, attrs, (&Layout::contiguous(&[2]), dtype), 2);
        Ok(Self(ready(backend, &call.key)?.code))
    }

    /// Fails if an index, an element of the second operand, is outside an axis of this size.
    ///
    /// # Errors
    /// The error of the op; the errors of the device.
    #[inline]
    pub fn run(&self, operands: &[&Array], size: usize) -> Result<()> {
        const POSITION_BYTES: u64 = size_of::<i64>() as u64;
        let index = operands[1];
        if index.numel() == 0 {
            return Ok(());
        }
        let (count, at, step) = (index.numel() as u64, index.device_ptr() as u64, index.dtype().size() as u64);
        // The number of iterations, then addresses and strides of the iota, the indices and the record, then the sizes.
        let block = [count, 0, POSITION_BYTES, at, step, 0, 0, size as u64, 2 * size as u64];
        // SAFETY: the indices are dense and live during the call.
        unsafe { self.0.run(&block, operands, &[]) }
    }
}
