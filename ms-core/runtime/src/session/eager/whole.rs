//! Runs ops as whole steps, on devices that run no kernels.

use super::code::ready;
use super::{Arrays, Operands, check_op, infer, run_without_step};
use crate::session::context::settings;
use ms_compile::exec::Backend;
use ms_compile::lower::eager::StepKey;
use ms_ir::error::{Result, in_op};
use ms_ir::op::{definition, dialect};
use ms_ir::{Precision, Type};
use ms_ops::ops::{Lowering, OpDef};
use ms_ops::tensor::{Array, Attrs, MemorySpace, Op, OpCall, Outputs, Tensor};
use smallvec::SmallVec;

/// Runs an op on a device that runs no kernels. Views and constants need no step.
///
/// # Errors
/// The errors of the op's type rule, of the op and of the device.
pub(super) fn run(
    backend: &dyn Backend,
    space: MemorySpace,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Operands<'_>,
) -> Result<Outputs> {
    let owned: SmallVec<[Array; 3]>;
    let arrays: Arrays<'_> = match operands.numbers.is_empty() {
        true => operands.arrays.iter().copied().collect(),
        false => {
            owned = in_op(|| operands.to_arrays(space))?;
            owned.iter().collect()
        }
    };
    if let Lowering::View(_) | Lowering::Constant(_) = def.lowering {
        return run_without_step(Some(backend), space, def, call, &arrays);
    }
    check_op(backend, def, &arrays)?;
    let outputs = in_op(|| apply(backend, def.op(), call.attrs, &arrays, &infer(def, call)?, settings().precision))?;
    Ok(outputs.into_iter().map(Tensor::from_array).collect())
}

/// Returns a row-major copy of a strided view.
///
/// # Errors
/// The errors of the device.
pub(super) fn copy(backend: &dyn Backend, array: &Array) -> Result<Array> {
    let (op, attrs) = dialect().copy(array.dtype());
    let mut copied = apply(backend, op, &attrs, &[array], &[array.ty()], Precision::Strict)?;
    Ok(copied.remove(0))
}

/// Runs an op whose results have these types.
fn apply(
    backend: &dyn Backend,
    op: Op,
    attrs: &Attrs,
    operands: &[&Array],
    types: &[Type],
    precision: Precision,
) -> Result<SmallVec<[Array; 1]>> {
    let mut results: SmallVec<[Array; 1]> = SmallVec::with_capacity(types.len());
    for ty in types {
        let shape = ty.shape().expect("arrays have constant shapes");
        // SAFETY: the code writes every element before the array is returned.
        results.push(unsafe { Array::uninit_in(backend.memory(), &shape, ty.dtype)? });
    }
    let key = StepKey::library(definition(op), attrs, operands, precision);
    let ready = ready(backend, &key)?;
    // SAFETY: the type rule of the op accepted operands of these types, which are live, and returned the types of the
    // fresh results.
    unsafe { ready.code.run(&[], operands, &results)? };
    Ok(results)
}
