//! `constant`: constant data.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, TransformRules, definition};
use crate::tensor::{Array, DType, Literal, OpInfo, Scalar, Tensor, Type, apply1};
use ms_ir::Node;
use smallvec::smallvec;

attributes! {
    /// The attributes of [`CONSTANT`].
    #[doc(hidden)]
    pub struct ConstantAttrs { value: Literal }
}

/// Returns the literal `value`.
pub static CONSTANT: OpDef = OpDef {
    info: OpInfo { number: 1, name: "constant", attrs: ConstantAttrs::DECLARED },
    infer: |attrs, _| {
        let literal = ConstantAttrs::of(attrs).value();
        Ok(smallvec![Type::of(literal.dtype(), literal.shape())])
    },
    eval: |attrs, _| Ok(smallvec![ConstantAttrs::of(attrs).value().to_array()]),
    effects: Effects::NONE,
    lowering: Lowering::Constant(|attrs| ConstantAttrs::of(attrs).value()),
    samples: || {
        let array = Array::full(&[2, 3], Scalar::Float(1.5), DType::F32);
        let literal = Literal::from_array(&array).expect("it is in memory of the host");
        vec![Sample::new([]).attrs(ConstantAttrs::attrs(literal))]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Derived,
        body: None,
    },
};

/// Creates a tensor of constant data: part of the graph while tracing, an array otherwise.
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::constant(&ms_core::tensor::Literal::scalar(2.5.into(), ms_core::DType::F32)).to_vec::<f32>(), [2.5]);
/// ```
pub fn constant(value: &Literal) -> Tensor {
    apply1(CONSTANT.op(), &ConstantAttrs::attrs(value.clone()), &[])
}

/// Creates a node of constant data.
#[doc(hidden)]
pub fn constant_node(value: Literal) -> Node {
    Node::new(CONSTANT.op(), ConstantAttrs::attrs(value), [])
}

/// Returns the data of a constant node.
#[doc(hidden)]
pub fn constant_of(node: &Node) -> Option<&Literal> {
    match definition(node.op).lowering {
        Lowering::Constant(data) => Some(data(&node.attrs)),
        _ => None,
    }
}
