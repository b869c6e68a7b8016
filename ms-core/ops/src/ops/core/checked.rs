//! The reference evaluation of the ops of [`Lowering::Check`](ms_ir::op::Lowering::Check).

use crate::ops::{Arrays, OpDef, Refused};
use crate::tensor::{Array, Attrs, Scalar, Type};
use ms_ir::error::Result;
use smallvec::{SmallVec, smallvec};

/// Evaluates the op of a check: returns operand 0 if `accepts` holds for every element of the checked operand.
///
/// # Errors
/// The error of the first element that is not accepted.
pub(in crate::ops) fn evaluate(
    def: &OpDef,
    attrs: &Attrs,
    inputs: &[&Array],
    accepts: impl Fn(Scalar) -> bool,
) -> Result<Arrays> {
    let at = def.checked_operand().expect("the op is of a check");
    let checked = inputs[at].on_host()?;
    let first = checked.scalars().into_iter().enumerate().find(|it| !accepts(it.1));
    let Some((position, element)) = first else { return Ok(smallvec![inputs[0].on_host()?.duplicate()]) };
    let types: SmallVec<[Type; 2]> = inputs.iter().map(|it| it.ty()).collect();
    Err(def.refuse(attrs, &types, &Refused { position, element, shown: &inputs[at + 1..] }))
}
