//! `eye`: ones on a diagonal.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, TransformRules};
use crate::tensor::{Array, DType, Dim, OpInfo, Scalar, Tensor, Type, apply1};
use ms_ir::error::called;
use ms_ir::{BinaryOp, Compare};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`EYE`].
    struct EyeAttrs { n: Dim, m: Dim, k: i64, dtype: DType }
}

/// Returns an `n` by `m` matrix with ones where column minus row is `k`, zeros elsewhere.
pub static EYE: OpDef = OpDef {
    info: OpInfo { number: 355, name: "eye", attrs: EyeAttrs::DECLARED },
    infer: |attrs, _| {
        let it = EyeAttrs::of(attrs);
        Ok(smallvec![Type::new(it.dtype(), smallvec![it.n(), it.m()])])
    },
    eval: |attrs, _| {
        let it = EyeAttrs::of(attrs);
        let size = |it: Dim| it.as_known().expect("sizes have numbers where ops are evaluated");
        let (n, m, k) = (size(it.n()), size(it.m()), it.k());
        let mut out = Array::zeros(&[n as usize, m as usize], it.dtype());
        let mut elements = out.elements_mut();
        for row in 0..if m == 0 { 0 } else { n } {
            if k.checked_add(row).is_some_and(|it| (0..m).contains(&it)) {
                elements.set((row * m + row + k) as usize, Scalar::Bool(true));
            }
        }
        Ok(smallvec![out])
    },
    effects: Effects::NONE,
    lowering: Lowering::Generate(|attrs, body, index, dtype| {
        let k = body.constant(EyeAttrs::of(attrs).k(), DType::I64);
        let diagonal = body.binary(BinaryOp::Add, index[0], k);
        let hit = body.compare(Compare::Eq, diagonal, index[1]);
        body.cast(hit, dtype)
    }),
    samples: || {
        let of = |k: i64| Sample::new([]).attrs(EyeAttrs::attrs(3i64, 5i64, k, DType::F32));
        vec![of(0), of(1), of(-1)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Derived,
        body: None,
    },
};

/// Returns an `n` by `m` matrix of `dtype` with ones where column minus row is `k`.
///
/// ```
/// use ms_core::{DType, ops};
/// assert_eq!(ops::eye_of(2, 3, 1, DType::I64).to_vec::<i64>(), [0, 1, 0, 0, 0, 1]);
/// ```
#[track_caller]
pub fn eye_of(n: impl Into<Dim>, m: impl Into<Dim>, k: isize, dtype: DType) -> Tensor {
    let _called = called("eye_of");
    let (n, m): (Dim, Dim) = (n.into(), m.into());
    // The bounds are outside every matrix, and outside the range of symbolic sizes.
    let k = (k as i64).clamp(i64::MIN / 2, i64::MAX / 2);
    apply1(EYE.op(), &EyeAttrs::attrs(n, m, k, dtype), &[])
}

/// Returns the `n` by `n` identity matrix in f32.
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::eye(2).to_vec::<f32>(), [1., 0., 0., 1.]);
/// ```
#[track_caller]
pub fn eye(n: impl Into<Dim>) -> Tensor {
    let n = n.into();
    eye_of(n, n, 0, DType::F32)
}
