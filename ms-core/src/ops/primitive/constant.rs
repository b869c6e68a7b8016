//! `constant`: constant data.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample};
use crate::tensor::{Array, Attr, Attrs, DType, Literal, OpInfo, Scalar, Tensor, Type, apply1};
use smallvec::smallvec;

/// The literal of attribute 0.
pub static CONSTANT: OpDef = OpDef {
    info: OpInfo { number: 1, name: "constant", attrs: &["value"] },
    infer: |attrs, _| {
        let literal = attrs.literal(0);
        Ok(smallvec![Type::of(literal.dtype(), literal.shape())])
    },
    eval: |attrs, _| Ok(smallvec![attrs.literal(0).to_array()]),
    derivative: Derivative::Zero,
    finite_derivatives: true,
    effects: Effects::NONE,
    batching: Batching::Derived,
    lowering: Lowering::Constant,
    samples: || {
        let array = Array::full(&[2, 3], Scalar::Float(1.5), DType::F32);
        let literal = Literal::from_array(&array).expect("it is in memory of the host");
        vec![Sample::new([]).attrs(Attrs::new([Attr::Literal(literal)]))]
    },
};

/// A tensor of constant data: part of the graph while tracing, an array otherwise.
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::constant(&ms_core::tensor::Literal::scalar(2.5.into(), ms_core::DType::F32)).to_vec::<f32>(), [2.5]);
/// ```
pub fn constant(value: &Literal) -> Tensor {
    apply1(CONSTANT.op(), &Attrs::new([Attr::Literal(value.clone())]), &[])
}
