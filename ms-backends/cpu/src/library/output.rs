//! Accesses the outputs of ops: their elements, and the copy with which an update begins.

use super::elements;
use ms_ir::data::{Array, Element};
use ms_ir::error::Result;
use ms_ir::with_element;
use ms_ops::ops::host::dense;

/// Returns the elements of an output.
///
/// # Safety
/// The output is a row-major array of `T`, and nothing else accesses its memory meanwhile.
#[allow(clippy::mut_from_ref, reason = "the storage is shared by type, and this user alone by contract")]
pub unsafe fn written<T: Element>(out: &Array) -> &mut [T] {
    // SAFETY: the output has `numel` contiguous elements of `T` that nothing else accesses, by this function's
    // contract.
    unsafe { std::slice::from_raw_parts_mut(out.device_ptr().cast::<T>(), out.numel()) }
}

/// Copies the first operand to the output, unless they share their memory.
///
/// # Safety
/// The output is a row-major array of the operand's type. Nothing else accesses its memory, except that it may be the
/// operand's.
///
/// # Errors
/// The errors of [`Array::on_host`].
pub unsafe fn begin(x: &Array, out: &Array) -> Result<()> {
    if x.device_ptr() == out.device_ptr() && x.layout().is_contiguous() {
        return Ok(());
    }
    let x = x.on_host()?;
    with_element!(out.dtype(), T => {
        // SAFETY: the output is a row-major array of `T`, and does not share the operand's memory here.
        let to: &mut [T] = unsafe { written(out) };
        match x.layout().strides().iter().all(|&it| it == 0) {
            true => to.fill(x.iter::<T>().next().unwrap_or_default()),
            false => to.copy_from_slice(elements(&dense(&x)?)),
        }
    });
    Ok(())
}
