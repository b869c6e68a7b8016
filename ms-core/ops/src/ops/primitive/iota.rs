//! `iota`: evenly spaced numbers along one axis.

use crate::ops::core::axis::stored_axis;
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, TransformRules};
use crate::tensor::{Array, Attr, Attrs, DType, Dims, IntoDims, OpInfo, Scalar, Tensor, Type, apply1};
use ms_ir::BinaryOp;
use smallvec::smallvec;

attributes! {
    /// The attributes of [`IOTA`]: `start` and `step` are floats if `dtype` is.
    struct IotaAttrs { shape: Dims, axis: usize, start: Scalar, step: Scalar, dtype: DType }
}

/// Returns `start + i * step`, where `i` is the position along `axis`. The value is computed in f64 for floats and in
/// i64 for integers, then converted to the dtype.
pub static IOTA: OpDef = OpDef {
    info: OpInfo { number: 353, name: "iota", attrs: IotaAttrs::DECLARED },
    infer: |attrs, _| {
        let it = IotaAttrs::of(attrs);
        let shape = it.shape().dims();
        stored_axis(it.axis(), shape.len())?;
        Ok(smallvec![Type::new(it.dtype(), shape)])
    },
    eval: |attrs, _| {
        let it = IotaAttrs::of(attrs);
        let (shape, axis, dtype) = (it.shape().sizes(), it.axis(), it.dtype());
        let inner: usize = shape[axis + 1..].iter().product();
        Ok(smallvec![Array::from_scalars(&shape, dtype, &mut |at| value(attrs, at / inner % shape[axis]))])
    },
    effects: Effects::NONE,
    lowering: Lowering::Generate(|attrs, body, index, dtype| {
        let it = IotaAttrs::of(attrs);
        let (at, compute) = (index[it.axis()], if dtype.is_float() { DType::F64 } else { DType::I64 });
        let (start, step) = (it.start(), it.step());
        let at = body.cast(at, compute);
        let (start, step) = (body.constant(start, compute), body.constant(step, compute));
        let scaled = body.binary(BinaryOp::Mul, at, step);
        let moved = body.binary(BinaryOp::Add, start, scaled);
        body.cast(moved, dtype)
    }),
    samples: || {
        let of = |start: Attr, step: Attr, dtype: DType| {
            Sample::new([]).attrs(IotaAttrs::attrs(&[3usize, 4][..], 1usize, start, step, dtype))
        };
        vec![
            of(0i64.into(), 1i64.into(), DType::I64),
            of(0.5.into(), (-0.25).into(), DType::F32),
            of(250i64.into(), 3i64.into(), DType::U8),
        ]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Derived,
        body: None,
    },
};

fn value(attrs: &Attrs, i: usize) -> Scalar {
    let it = IotaAttrs::of(attrs);
    match (it.start(), it.step()) {
        (Scalar::Float(start), Scalar::Float(step)) => Scalar::Float(start + i as f64 * step),
        (start, step) => Scalar::Int(start.as_i64().wrapping_add((i as i64).wrapping_mul(step.as_i64()))),
    }
}

/// Returns the position along `axis` of every element of `shape`.
///
/// ```
/// use ms_core::{DType, ops};
/// assert_eq!(ops::iota([2, 2], 1, DType::I64).to_vec::<i64>(), [0, 1, 0, 1]);
/// ```
#[track_caller]
pub fn iota(shape: impl IntoDims, axis: usize, dtype: DType) -> Tensor {
    spaced(shape, axis, Scalar::Int(0), Scalar::Int(1), dtype)
}

/// Returns `start + i * step` at position `i` along `axis`.
#[track_caller]
pub(crate) fn spaced(shape: impl IntoDims, axis: usize, start: Scalar, step: Scalar, dtype: DType) -> Tensor {
    let attr = |it: Scalar| match dtype.is_float() {
        true => Attr::Float(it.as_f64()),
        false => Attr::Int(it.as_i64()),
    };
    let attrs = IotaAttrs::attrs(&*shape.into_dims(), axis, attr(start), attr(step), dtype);
    apply1(IOTA.op(), &attrs, &[])
}
