//! `argmax` and `argmin`: positions of extreme elements.

use super::reduction::axes_of;
use crate::ops::core::axis::stored_axis;
use crate::ops::core::host::replaces;
use crate::ops::{
    Arrays, AxisAttrs, Batching, Derivative, Effects, Lowering, OpDef, ReduceAxes, Sample, SampleInput, TransformRules,
    Types, expand_dims, permute, reshape,
};
use crate::tensor::{Array, AsTensor, Attr, Attrs, DType, Dim, OpInfo, Scalar, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;
use std::cmp::Ordering;

/// Returns the i64 position of the largest element along `axis`: the first of equal ones, or of NaNs.
pub static ARGMAX: OpDef = OpDef {
    info: OpInfo { number: 320, name: "argmax", attrs: AxisAttrs::DECLARED },
    infer,
    eval: |attrs, inputs| evaluate(attrs, inputs[0], Ordering::Greater),
    effects: Effects::NONE,
    lowering: Lowering::Library,
    samples,
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs)),
        body: None,
    },
};

/// Returns the i64 position of the smallest element along `axis`: the first of equal ones, or of NaNs.
pub static ARGMIN: OpDef = OpDef {
    info: OpInfo { number: 321, name: "argmin", attrs: AxisAttrs::DECLARED },
    infer,
    eval: |attrs, inputs| evaluate(attrs, inputs[0], Ordering::Less),
    effects: Effects::NONE,
    lowering: Lowering::Library,
    samples,
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs)),
        body: None,
    },
};

fn infer(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    let mut dims = inputs[0].dims.clone();
    let axis = stored_axis(AxisAttrs::of(attrs).axis(), dims.len())?;
    if dims[axis] == 0 {
        return Err(Error::new(Code::Argument, format!("axis {axis} of {} has no extreme element", inputs[0])));
    }
    dims.remove(axis);
    Ok(smallvec![Type::new(DType::I64, dims)])
}

fn evaluate(attrs: &Attrs, x: &Array, beats: Ordering) -> Result<Arrays> {
    let axis = AxisAttrs::of(attrs).axis();
    let size = x.shape()[axis];
    let mut order: Vec<usize> = (0..x.layout().rank()).filter(|&it| it != axis).collect();
    order.push(axis);
    let x = x.with_layout(x.layout().permute(&order)).into_host()?;
    let kept = &x.shape()[..x.layout().rank() - 1];
    let mut out = Array::zeros(kept, DType::I64);
    for (to, row) in out.as_mut_slice::<i64>().iter_mut().zip(x.scalars().chunks_exact(size)) {
        *to = position(row, beats) as i64;
    }
    Ok(smallvec![out])
}

/// Returns the position of the element with this order relative to all others: the first of equal ones, or of NaNs.
fn position(row: &[Scalar], beats: Ordering) -> usize {
    let mut best = 0;
    for at in 1..row.len() {
        if replaces(row[at], row[best], beats) {
            best = at;
        }
    }
    best
}

fn samples() -> Vec<Sample> {
    let axis: Attr = 1usize.into();
    vec![Sample::new([SampleInput::f32(&[3, 4, 2], -2.0, 2.0)]).attrs(AxisAttrs::attrs(axis))]
}

/// Returns the position of the largest element over axes, as i64: the first of equal ones, or of NaNs. Over several
/// axes, or `()` for all, positions are in row-major order. In [`keepdims`](crate::ops::keepdims) the axes remain with
/// size 1.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis that does not exist, and [`Code::Argument`] if there are no elements.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[1., 5., 2.], [7., 0., 7.]];
/// assert_eq!(ops::argmax(&x, 1).to_vec::<i64>(), [1, 0]);
/// assert_eq!(ops::argmax(&x, ()).item::<i64>(), 3);
/// assert_eq!(ops::argmax(&x, ops::keepdims(1)).shape(), [2, 1]);
/// ```
#[track_caller]
pub fn argmax(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor {
    over(&ARGMAX, &x.as_tensor(), axes)
}

/// Returns the position of the smallest element over axes, as i64; see [`argmax`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::argmin(tensor![[1., 5.], [7., 0.]], 0).to_vec::<i64>(), [0, 1]);
/// ```
#[track_caller]
pub fn argmin(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor {
    over(&ARGMIN, &x.as_tensor(), axes)
}

#[track_caller]
fn over(def: &'static OpDef, x: &Tensor, axes: impl ReduceAxes) -> Tensor {
    propagate_poison!(x);
    let keepdims = axes.keepdims();
    let axes = or_poison!(axes_of(def.name(), x, axes));
    let positions = positions(def, x, &axes);
    if keepdims { expand_dims(positions, &axes[..]) } else { positions }
}

/// Returns the positions over `axes`, which are removed.
#[track_caller]
fn positions(def: &'static OpDef, x: &Tensor, axes: &[usize]) -> Tensor {
    if let [axis] = *axes {
        return apply1(def.op(), &AxisAttrs::attrs(axis), &[x]);
    }
    let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let count: Dim = axes.iter().map(|&axis| x.dims()[axis]).product();
    let kept = order[..x.rank() - axes.len()].iter().map(|&axis| x.dims()[axis]);
    let rows: Vec<Dim> = kept.chain([count]).collect();
    let rows = reshape(permute(x, order), rows);
    apply1(def.op(), &AxisAttrs::attrs(rows.rank() - 1), &[&rows])
}
