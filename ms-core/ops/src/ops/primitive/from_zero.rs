//! `from_zero`: positions checked to be nonnegative.

use crate::ops::core::checked::{checked, evaluate};
use crate::ops::core::indices::check_index;
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{Attrs, DType, OpInfo, Tensor};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`FROM_ZERO`].
    struct FromZeroAttrs { caller: str }
}

/// Returns the operand, and fails if an element is negative. `caller` is the op in the error.
pub static FROM_ZERO: OpDef = OpDef {
    info: OpInfo { number: 389, name: "from_zero", attrs: FromZeroAttrs::DECLARED },
    infer: |_, inputs| check_index(inputs[0]).map(|()| smallvec![inputs[0].clone()]),
    eval: |attrs, inputs| evaluate(check_elements, attrs, inputs),
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Check(check_elements),
    samples: || {
        let of = |dtype: DType, shape: &[usize]| {
            Sample::new([SampleInput::of(dtype, shape, 0.0, 9.0)]).attrs(FromZeroAttrs::attrs("sample"))
        };
        vec![of(DType::I64, &[5]), of(DType::I32, &[2, 3]), of(DType::I8, &[])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
        body: None,
    },
};

/// Checks that no position is negative: [`FROM_ZERO`] on the bytes of elements of an integer dtype.
///
/// # Errors
/// [`Code::OutOfRange`] for the first negative position.
///
/// # Panics
/// If the bytes are not aligned for the elements.
pub(in crate::ops) fn check_elements(attrs: &Attrs, dtype: DType, positions: &[u8]) -> Result<()> {
    macro_rules! first_negative {
        ($($dtype:ident $ty:ty,)*) => {
            match dtype {
                $(DType::$dtype => {
                    let all = bytemuck::cast_slice::<u8, $ty>(positions);
                    // Without an early exit, the loop is vectorised.
                    let is_negative = all.iter().fold(0, |any, &it| any | it) < 0;
                    all.iter().position(|&it| is_negative && it < 0).map(|at| (at, i64::from(all[at])))
                })*
                _ => None,
            }
        };
    }
    match first_negative! { I8 i8, I16 i16, I32 i32, I64 i64, } {
        None => Ok(()),
        Some((at, position)) => {
            let caller = FromZeroAttrs::of(attrs).caller();
            let message = format!("element {at} of the index is {position}, which is negative");
            Err(Error::new(Code::OutOfRange, message).with_op(caller).help(
                "positions of this function count from 0; those of indexing (`at`, `i`), and of the functions \
                 in `ops::wrapping`, may count from the end",
            ))
        }
    }
}

/// Checks that positions are not negative: immediately if they are known, else at run time.
#[track_caller]
pub(in crate::ops) fn from_zero(positions: &Tensor, caller: &str) -> Tensor {
    propagate_poison!(positions);
    if !positions.dtype().is_signed_int() {
        return positions.clone();
    }
    checked(&FROM_ZERO, &FromZeroAttrs::attrs(caller), positions, caller)
}
