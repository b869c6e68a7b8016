//! `linspace`: evenly spaced numbers between two bounds.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, TransformRules};
use crate::tensor::{Array, Attrs, DType, OpInfo, Scalar, Tensor, Type, apply1};
use ms_ir::{BinaryOp, Compare};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`LINSPACE`].
    struct LinspaceAttrs { start: f64, stop: f64, num: i64 where 0..=i64::MAX, dtype: DType }
}

/// Returns `num` values from `start` to `stop`, both included exactly; computed in f64.
pub static LINSPACE: OpDef = OpDef {
    info: OpInfo { number: 354, name: "linspace", attrs: LinspaceAttrs::DECLARED },
    infer: |attrs, _| {
        let it = LinspaceAttrs::of(attrs);
        Ok(smallvec![Type::of(it.dtype(), &[it.num() as usize])])
    },
    eval: |attrs, _| {
        let it = LinspaceAttrs::of(attrs);
        let (start, stop, num) = (it.start(), it.stop(), it.num() as usize);
        let step = step(attrs);
        Ok(smallvec![Array::from_scalars(&[num], it.dtype(), &mut |i| {
            Scalar::Float(if i > 0 && i + 1 == num { stop } else { start + i as f64 * step })
        })])
    },
    effects: Effects::NONE,
    lowering: Lowering::Generate(|attrs, body, index, dtype| {
        let at = body.cast(index[0], DType::F64);
        let it = LinspaceAttrs::of(attrs);
        let (start, step) = (body.constant(it.start(), DType::F64), body.constant(step(attrs), DType::F64));
        let scaled = body.binary(BinaryOp::Mul, at, step);
        let inside = body.binary(BinaryOp::Add, start, scaled);
        // A single value is the start.
        let last = body.constant((it.num() - 1).max(1), DType::I64);
        let at_end = body.compare(Compare::Eq, index[0], last);
        let stop = body.constant(it.stop(), DType::F64);
        let value = body.select(at_end, stop, inside);
        body.cast(value, dtype)
    }),
    samples: || {
        let of = |num: i64| Sample::new([]).attrs(LinspaceAttrs::attrs(-1.5, 2.0, num, DType::F32));
        vec![of(9), of(1), of(0)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Derived,
        body: None,
    },
};

fn step(attrs: &Attrs) -> f64 {
    let it = LinspaceAttrs::of(attrs);
    (it.stop() - it.start()) / (it.num() - 1).max(1) as f64
}

/// Returns `num` evenly spaced f32 values from `start` to `stop`, both included.
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::linspace(0., 1., 3).to_vec::<f32>(), [0., 0.5, 1.]);
/// ```
#[track_caller]
pub fn linspace(start: f64, stop: f64, num: usize) -> Tensor {
    apply1(LINSPACE.op(), &LinspaceAttrs::attrs(start, stop, num, DType::F32), &[])
}
