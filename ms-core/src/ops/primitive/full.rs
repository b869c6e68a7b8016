//! `full`: a tensor of one value.

use crate::error::OrRaise;
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample};
use crate::tensor::{
    Array, Attr, Attrs, DType, IntoDims, Literal, Number, OpInfo, Scalar, Tensor, Type, apply1, own_scalar,
};
use smallvec::smallvec;

/// The zero-dimensional literal of attribute 0, broadcast to the shape of attribute 1.
pub static FULL: OpDef = OpDef {
    info: OpInfo { number: 352, name: "full", attrs: &["value", "shape"] },
    infer: |attrs, _| Ok(smallvec![Type::new(attrs.literal(0).dtype(), attrs.dims(1))]),
    eval: |attrs, _| Ok(smallvec![Array::full(&attrs.sizes(1), value(attrs), attrs.literal(0).dtype())]),
    derivative: Derivative::Zero,
    finite_derivatives: true,
    effects: Effects::NONE,
    batching: Batching::Derived,
    lowering: Lowering::Generate(|attrs, body, _, ty| body.constant(value(attrs), ty.dtype)),
    samples: || {
        let shape: Attr = (&[2usize, 3][..]).into();
        let of = |value, dtype| Attrs::new([Attr::Literal(Literal::scalar(value, dtype)), shape.clone()]);
        vec![
            Sample::new([]).attrs(of(Scalar::Float(1.5), DType::F32)),
            Sample::new([]).attrs(of(Scalar::Int(-3), DType::I8)),
        ]
    },
};

fn value(attrs: &Attrs) -> Scalar {
    attrs.literal(0).splat().expect("a zero-dimensional literal has one value")
}

/// A tensor of `shape` filled with `value`, in its Rust type; f64 and i32, the types of numbers
/// without a suffix, become f32 and i64.
///
/// # Panics
/// Raises [`Code::DType`](crate::Code::DType) for an f64 out of the range of f32.
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::full([2], 0.5).to_vec::<f32>(), [0.5, 0.5]);
/// ```
#[track_caller]
pub fn full(shape: impl IntoDims, value: impl Number) -> Tensor {
    let (value, dtype) = own_scalar(value).map_err(|it| it.with_op("full")).or_raise();
    full_of(shape, value, dtype)
}

/// A tensor of `shape` filled with `value`, converted to `dtype`.
///
/// ```
/// use ms_core::{DType, ops};
/// assert_eq!(ops::full_of([2], 3, DType::F32).to_vec::<f32>(), [3., 3.]);
/// ```
#[track_caller]
pub fn full_of(shape: impl IntoDims, value: impl Into<Scalar>, dtype: DType) -> Tensor {
    let literal = Attr::Literal(Literal::scalar(value.into(), dtype));
    apply1(FULL.op(), &Attrs::new([literal, (&*shape.into_dims()).into()]), &[])
}
