//! Shared code of the ops of [`Lowering::Check`], which return their operand or fail on its values.

use super::axis::named;
use super::host::dense;
use crate::ops::{Arrays, Lowering, OpDef};
use crate::tensor::{Array, Attrs, DType, Tensor, apply1};
use ms_ir::error::Result;
use smallvec::smallvec;

/// The check of [`Lowering::Check`].
type Check = fn(&Attrs, DType, &[u8]) -> Result<()>;

/// Evaluates the op of a check.
///
/// # Errors
/// The errors of the check.
pub(in crate::ops) fn evaluate(check: Check, attrs: &Attrs, inputs: &[&Array]) -> Result<Arrays> {
    let out = inputs[0].on_host()?.duplicate();
    check_array(check, attrs, &out)?;
    Ok(smallvec![out])
}

/// Checks an array of the host; a strided one is copied first.
fn check_array(check: Check, attrs: &Attrs, array: &Array) -> Result<()> {
    check(attrs, array.dtype(), dense(array)?.bytes())
}

/// Checks a tensor immediately if its elements are on the host, else by the op at run time. Errors name `caller`.
#[track_caller]
pub(in crate::ops) fn checked(def: &'static OpDef, attrs: &Attrs, x: &Tensor, caller: &str) -> Tensor {
    let Lowering::Check(check) = def.lowering else { unreachable!("`{}` is no check", def.name()) };
    match x.as_array() {
        // The op would copy the elements.
        Some(known) if known.space().is_host() && !attrs.is_symbolic() => {
            or_poison!(check_array(check, attrs, known).map_err(|it| named(caller, &[x], it)));
            x.clone()
        }
        _ => apply1(def.op(), attrs, &[x]),
    }
}
