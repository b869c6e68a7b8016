//! `bounded`: elements checked to be between zero and a limit.

use crate::ops::core::checked::{checked, evaluate};
use crate::ops::{Batching, Derivative, Effects, Extent, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{Attrs, DType, Dim, Element, Kind, OpInfo, Scalar, Tensor};
use bytemuck::Pod;
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`BOUNDED`].
    struct BoundedAttrs { limit: Extent, elements: str, caller: str }
}

/// Returns the operand, and fails if an element is below zero or above `limit`; NaN passes. `elements` names the
/// elements in the error, and `caller` is its op.
pub static BOUNDED: OpDef = OpDef {
    info: OpInfo { number: 396, name: "bounded", attrs: BoundedAttrs::DECLARED },
    infer: |_, inputs| Ok(smallvec![inputs[0].clone()]),
    eval: |attrs, inputs| evaluate(check_elements, attrs, inputs),
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Check(check_elements),
    samples: || {
        let of = |dtype: DType, shape: &[usize], limit: usize| {
            let attrs = BoundedAttrs::attrs(limit as i64, "elements", "sample");
            Sample::new([SampleInput::of(dtype, shape, 0.0, limit as f64)]).attrs(attrs)
        };
        vec![of(DType::F32, &[5], 1), of(DType::F16, &[2, 3], 1), of(DType::I64, &[2, 2], 7), of(DType::U8, &[], 3)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| smallvec![Some(it.cotangent().clone())]),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
        body: None,
    },
};

/// Applies the check of [`BOUNDED`] to the bytes of the elements.
///
/// # Errors
/// [`Code::OutOfRange`] for the first integer out of bounds, and [`Code::Argument`] for the first float.
///
/// # Panics
/// If the bytes are not aligned for the elements.
fn check_elements(attrs: &Attrs, dtype: DType, bytes: &[u8]) -> Result<()> {
    fn check<T: Element + Pod + PartialOrd>(attrs: &Attrs, bytes: &[u8]) -> Result<()> {
        let limit = Scalar::Int(BoundedAttrs::of(attrs).limit().as_const().unwrap_or(0) as i64);
        let zero = T::from_scalar(Scalar::Int(0));
        let limit = limit.is_within(T::DTYPE).then(|| T::from_scalar(limit));
        // Comparisons with NaN are false.
        let is_outside = |it: &T| *it < zero || limit.is_some_and(|limit| *it > limit);
        let all = bytemuck::cast_slice::<u8, T>(bytes);
        // Without an early exit, the loop is vectorised.
        if !all.iter().fold(false, |any, it| any | is_outside(it)) {
            return Ok(());
        }
        all.iter().position(is_outside).map_or(Ok(()), |at| Err(refusal(attrs, at, all[at].to_scalar())))
    }
    match dtype {
        DType::Bool => Ok(()),
        DType::I8 => check::<i8>(attrs, bytes),
        DType::I16 => check::<i16>(attrs, bytes),
        DType::I32 => check::<i32>(attrs, bytes),
        DType::I64 => check::<i64>(attrs, bytes),
        DType::U8 => check::<u8>(attrs, bytes),
        DType::U16 => check::<u16>(attrs, bytes),
        DType::U32 => check::<u32>(attrs, bytes),
        DType::U64 => check::<u64>(attrs, bytes),
        DType::F16 => check::<half::f16>(attrs, bytes),
        DType::BF16 => check::<half::bf16>(attrs, bytes),
        DType::F32 => check::<f32>(attrs, bytes),
        DType::F64 => check::<f64>(attrs, bytes),
    }
}

#[cold]
fn refusal(attrs: &Attrs, at: usize, element: Scalar) -> Error {
    let it = BoundedAttrs::of(attrs);
    let message = format!("element {at} of the {} is {element}", it.elements());
    let code = if element.kind() == Kind::Float { Code::Argument } else { Code::OutOfRange };
    Error::new(code, message).with_op(it.caller()).help(format!("they go from 0 to {}", it.limit()))
}

/// Checks that the elements are from zero to `limit`: immediately if they are known, else at run time.
#[doc(hidden)]
#[track_caller]
pub fn bounded(x: &Tensor, limit: impl Into<Dim>, elements: &str, caller: &str) -> Tensor {
    propagate_poison!(x);
    checked(&BOUNDED, &BoundedAttrs::attrs(limit.into(), elements, caller), x, caller)
}
