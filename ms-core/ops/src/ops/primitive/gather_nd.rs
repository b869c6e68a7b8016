//! `gather_nd` and `scatter_nd_add`: reads of, and additions to, slices at positions along several axes.

use super::from_zero::from_zero;
use crate::ops::core::axis::const_shape;
use crate::ops::core::host::{ScatterReduction, dense, rows};
use crate::ops::core::indices::{check_dtypes, check_index};
use crate::ops::core::rules::may_equal;
use crate::ops::{
    Batching, Derivative, Effects, Lowering, OpDef, PartialGradient, Sample, SampleInput, TransformRules, depend,
    full_of, wrapping,
};
use crate::tensor::{Array, AsTensor, DType, Dims, OpInfo, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

/// Gathers the slices of the first operand at the positions in the rows of the second one. A row of `k` integers is a
/// position along the first `k` axes.
pub static GATHER_ND: OpDef = OpDef {
    info: OpInfo { number: 385, name: "gather_nd", attrs: &[] },
    infer: |_, inputs| Ok(smallvec![Type::new(inputs[0].dtype, picked_shape(inputs[0], inputs[1])?)]),
    eval: |_, inputs| {
        let x = dense(inputs[0])?;
        let (rows, inner) = rows(inputs[1], x.shape())?;
        let shape = const_shape(&Type::new(x.dtype(), picked_shape(&x.ty(), &inputs[1].ty())?))?;
        let mut out = Array::zeros(&shape, x.dtype());
        let mut to = out.elements_mut();
        for (at, row) in rows.into_iter().enumerate() {
            to.copy(at * inner, x.elements(), row * inner, inner);
        }
        Ok(smallvec![out])
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Library,
    samples: || {
        let of = |x: &[usize], index: &[usize]| {
            let index = SampleInput::of(DType::I64, index, -2.0, 1.0);
            Sample::new([SampleInput::f32(x, -2.0, 2.0), index])
        };
        vec![of(&[2, 3, 4], &[5, 1]), of(&[2, 3, 4], &[2, 3, 2]), of(&[2, 3], &[4, 2]), of(&[2, 3], &[0, 2])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Read(|it| PartialGradient::points(&it.inputs[0], &it.inputs[1], it.cotangent())),
        finite_derivatives: true,
        batching: Batching::Rule(|it| match it.mapped {
            [false, true] => it.apply(it.attrs, it.inputs),
            _ => it.apply(it.attrs, &[it.spread(0), it.rows(1)]),
        }),
        body: None,
    },
};

/// Adds slices of the third operand to the first one at the positions in the rows of the second.
pub static SCATTER_ND_ADD: OpDef = OpDef {
    info: OpInfo { number: 386, name: "scatter_nd_add", attrs: &[] },
    infer: |_, inputs| {
        let (x, index, source) = (inputs[0], inputs[1], inputs[2]);
        check_dtypes(x, source)?;
        if !may_equal(&picked_shape(x, index)?, &source.dims) {
            return Err(Error::new(Code::Shape, format!("{source} holds no slices of {x} for the positions {index}")));
        }
        Ok(smallvec![x.clone()])
    },
    eval: |_, inputs| {
        let (mut out, source) = (inputs[0].on_host()?.duplicate(), dense(inputs[2])?);
        let (rows, inner) = rows(inputs[1], out.shape())?;
        let mut to = out.elements_mut();
        for (at, row) in rows.into_iter().enumerate() {
            for it in 0..inner {
                ScatterReduction::Add.apply(&mut to, row * inner + it, source.elements(), at * inner + it);
            }
        }
        Ok(smallvec![out])
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Update,
    samples: || {
        let of = |x: &[usize], index: &[usize], source: &[usize]| {
            let index = SampleInput::of(DType::I64, index, 0.0, 1.0);
            Sample::new([SampleInput::f32(x, -2.0, 2.0), index, SampleInput::f32(source, -2.0, 2.0)])
        };
        vec![of(&[2, 3, 4], &[5, 1], &[5, 3, 4]), of(&[2, 3], &[4, 2], &[4])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let g = it.cotangent();
            let source = it.needs[2].then(|| apply1(GATHER_ND.op(), it.attrs, &[g, &it.inputs[1]]));
            // If the source needs no gradient, this is the only use of the positions, and they have to be checked.
            let checked = |index: &Tensor| {
                let depth = index.dims().last().and_then(|it| it.as_const()).unwrap_or(0);
                wrapping::gather_nd(full_of(&g.dims()[..depth], 0, DType::U8), index)
            };
            let kept = if it.needs[2] { g.clone() } else { depend(g, checked(&it.inputs[1])) };
            smallvec![Some(kept), None, source]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, &[it.spread(0), it.rows(1), it.spread(2)])),
        body: None,
    },
};

/// Returns the shape of the slices of `x` at the positions `index`.
fn picked_shape(x: &Type, index: &Type) -> Result<Dims> {
    check_index(index)?;
    let (x, index) = (&x.dims, &index.dims);
    let split = index.split_last().and_then(|(k, rows)| Some((k.as_const()?, rows)));
    match split {
        Some((k, rows)) if k <= x.len() => Ok(rows.iter().chain(&x[k..]).copied().collect()),
        _ => Err(Error::new(Code::Shape, format!("rows of {index:?} are no positions along the axes of {x:?}"))),
    }
}

/// Returns the slices of `x` at the positions in the rows of `index`. The last axis of `index` is a position along the
/// first axes of `x`.
///
/// # Panics
/// Raises [`Code::Shape`] if rows are longer than the rank of `x`, and [`Code::DType`] unless `index` is of integers.
/// Raises [`Code::OutOfRange`] for a position that does not exist. A negative position does not exist; in
/// [`wrapping::gather_nd`](crate::ops::wrapping::gather_nd) it counts from the end.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::gather_nd(tensor![[1, 2], [3, 4]], tensor![[1, 0], [0, 1]]).to_vec::<i64>(), [3, 2]);
/// ```
#[track_caller]
pub fn gather_nd(x: impl AsTensor, index: impl AsTensor) -> Tensor {
    wrapping::gather_nd(x, from_zero(&index.as_tensor(), "gather_nd"))
}

/// Adds the slices of `source` to `x` at the positions in the rows of `index`.
///
/// # Panics
/// Panics in the cases of [`gather_nd`], and raises [`Code::Shape`] unless `source` has one slice for each row.
///
/// ```
/// use ms_core::{ops, tensor};
/// let sums = ops::scatter_nd_add(tensor![[0., 0.], [0., 0.]], tensor![[1, 0]], tensor![5.]);
/// assert_eq!(sums.to_vec::<f32>(), [0., 0., 5., 0.]);
/// ```
#[track_caller]
pub fn scatter_nd_add(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor) -> Tensor {
    wrapping::scatter_nd_add(x, from_zero(&index.as_tensor(), "scatter_nd_add"), source)
}
