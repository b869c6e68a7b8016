//! `size`: a dimension as a tensor.

use crate::ops::{Batching, Derivative, Effects, Extent, Lowering, OpDef, Sample, TransformRules, full_of};
use crate::tensor::{Array, DType, Dim, OpInfo, Scalar, Tensor, Type, apply1};
use ms_ir::error::{Code, Error};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`SIZE`].
    struct SizeAttrs { size: Extent, dtype: DType }
}

/// Returns the dimension `size` as a scalar tensor of `dtype`.
pub static SIZE: OpDef = OpDef {
    info: OpInfo { number: 377, name: "size", attrs: SizeAttrs::DECLARED },
    infer: |attrs, _| Ok(smallvec![Type::of(SizeAttrs::of(attrs).dtype(), &[])]),
    eval: |attrs, _| {
        let it = SizeAttrs::of(attrs);
        let symbolic = || Error::new(Code::Shape, format!("the size `{}` is symbolic", it.size()));
        let size = it.size().as_known().ok_or_else(symbolic)?;
        Ok(smallvec![Array::full(&[], Scalar::Int(size), it.dtype())])
    },
    effects: Effects::NONE,
    lowering: Lowering::Generate(|attrs, body, _, dtype| {
        let size = SizeAttrs::of(attrs).size().as_known();
        body.constant(Scalar::Int(size.expect("sizes have numbers where code is generated")), dtype)
    }),
    samples: || vec![Sample::new([]).attrs(SizeAttrs::attrs(7usize, DType::F32))],
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Derived,
        body: None,
    },
};

/// Returns a dimension, constant or symbolic, as a scalar tensor: for example the divisor of a mean.
///
/// ```
/// # use ms_core::{ops, tensor::DType};
/// let x = ops::ones([4, 3]);
/// assert_eq!(ops::size(x.dim(0), DType::F32).item::<f32>(), 4.0);
/// ```
#[track_caller]
pub fn size(dim: Dim, dtype: DType) -> Tensor {
    match dim.as_const() {
        Some(size) => full_of((), Scalar::UInt(size as u64), dtype),
        None => apply1(SIZE.op(), &SizeAttrs::attrs(dim, dtype), &[]),
    }
}

/// Divides `x` by a dimension.
#[track_caller]
pub(crate) fn over_size(x: &Tensor, dim: Dim) -> Tensor {
    match dim.as_const() {
        Some(size) => x / size as f64,
        None => x / size(dim, x.dtype()),
    }
}
