//! `bounded`: elements checked to be between zero and a limit.

use crate::ops::core::checked::evaluate;
use crate::ops::{
    Batching, CheckRule, Derivative, Effects, Extent, Lowering, OpDef, Refused, Sample, SampleInput, TransformRules,
};
use crate::tensor::{Attrs, DType, Dim, Kind, OpInfo, Scalar, Tensor, apply1};
use ms_ir::body::body as build_body;
use ms_ir::error::{Code, Error};
use ms_ir::{KernelBuilder, Val};
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
    eval: |attrs, inputs| {
        let limit = BoundedAttrs::of(attrs).limit().as_known().unwrap_or(0);
        evaluate(&BOUNDED, attrs, inputs, |element| match element {
            // Comparisons with NaN are false.
            Scalar::Float(it) => !(it < 0.0 || it > limit as f64),
            it => (0..=limit).contains(&it.as_i64()),
        })
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Check(CheckRule { operand: 0, accepts, refuse }),
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

/// Builds whether an element is not below zero and not above the limit. The comparisons with NaN are false.
fn accepts(_: &Attrs, body: &mut KernelBuilder, element: Val, sizes: &[Val]) -> Val {
    let dtype = body.ty(element);
    build_body(body, &[element, sizes[0]], |[element, limit]| {
        // Unsigned numbers beyond i64 are negative as such, and so refused.
        let wide = if dtype.is_float() { DType::F64 } else { DType::I64 };
        let (element, limit) = (element.cast(wide), limit.cast(wide));
        !(element.lt(0) | limit.lt(element))
    })
}

fn refuse(attrs: &Attrs, refused: &Refused<'_>) -> Error {
    let (at, element) = (refused.position, refused.element);
    let it = BoundedAttrs::of(attrs);
    let message = format!("element {at} of the {} is {element}", it.elements());
    let code = if element.kind() == Kind::Float { Code::Argument } else { Code::OutOfRange };
    Error::new(code, message).with_op(it.caller()).help(format!("they go from 0 to {}", it.limit()))
}

/// Returns the elements; one that is not from zero to `limit` is an error at run time.
#[doc(hidden)]
#[track_caller]
pub fn bounded(x: &Tensor, limit: impl Into<Dim>, elements: &str, caller: &str) -> Tensor {
    apply1(BOUNDED.op(), &BoundedAttrs::attrs(limit.into(), elements, caller), &[x])
}
