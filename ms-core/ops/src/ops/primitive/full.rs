//! `full`: a tensor of one value.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, TransformRules, constant_of};
use crate::tensor::{
    Array, Attrs, DType, Dim, Dims, IntoDims, Literal, Number, OpInfo, Scalar, Tensor, Type, apply1, own_scalar,
};
use ms_ir::Node;
use ms_ir::error::{Code, Error, OrRaise, called};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`FULL`].
    #[doc(hidden)]
    pub struct FullAttrs { value: Literal, shape: Dims }
}

/// Broadcasts the zero-dimensional literal `value` to `shape`.
pub static FULL: OpDef = OpDef {
    info: OpInfo { number: 352, name: "full", attrs: FullAttrs::DECLARED },
    infer: |attrs, _| {
        let it = FullAttrs::of(attrs);
        if it.value().splat().is_none() {
            return Err(Error::new(Code::Shape, "the value has to be a single element"));
        }
        Ok(smallvec![Type::new(it.value().dtype(), it.shape().dims())])
    },
    eval: |attrs, _| {
        let it = FullAttrs::of(attrs);
        Ok(smallvec![Array::full(&it.shape().sizes(), value(attrs), it.value().dtype())])
    },
    effects: Effects::NONE,
    lowering: Lowering::Generate(|attrs, body, _, dtype| body.constant(value(attrs), dtype)),
    samples: || {
        let of = |value, dtype| FullAttrs::attrs(Literal::scalar(value, dtype), &[2usize, 3][..]);
        vec![
            Sample::new([]).attrs(of(Scalar::Float(1.5), DType::F32)),
            Sample::new([]).attrs(of(Scalar::Int(-3), DType::I8)),
        ]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Derived,
        body: None,
    },
};

fn value(attrs: &Attrs) -> Scalar {
    FullAttrs::of(attrs).value().splat().expect("a zero-dimensional literal has one value")
}

/// Returns a tensor of `shape` filled with `value`, in its Rust type. f64 and i32, the types of unsuffixed literals,
/// become f32 and i64.
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

/// Returns a tensor of `shape` filled with `value`, converted to `dtype`.
///
/// ```
/// use ms_core::{DType, ops};
/// assert_eq!(ops::full_of([2], 3, DType::F32).to_vec::<f32>(), [3., 3.]);
/// ```
#[track_caller]
pub fn full_of(shape: impl IntoDims, value: impl Into<Scalar>, dtype: DType) -> Tensor {
    full_literal(&shape.into_dims(), Literal::scalar(value.into(), dtype))
}

#[track_caller]
fn full_literal(shape: &[Dim], value: Literal) -> Tensor {
    let _called = called("full_of");
    apply1(FULL.op(), &FullAttrs::attrs(value, shape), &[])
}

/// Creates a node whose elements all equal a zero-dimensional literal.
#[doc(hidden)]
pub fn full_node(element: Literal, dims: &[Dim]) -> Node {
    Node::new(FULL.op(), FullAttrs::attrs(element, dims), [])
}

/// Returns the literal of a constant node's elements: its data, or the element that it repeats.
#[doc(hidden)]
pub fn literal_of(node: &Node) -> Option<&Literal> {
    if node.op == FULL.op() { Some(FullAttrs::of(&node.attrs).value()) } else { constant_of(node) }
}
