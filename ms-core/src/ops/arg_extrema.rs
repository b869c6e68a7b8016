//! `argmax` and `argmin`: where the extreme elements are.

use super::axis::{normalize_axis, stored_axis};
use super::{Arrays, Batching, Derivative, Lowering, OpDef, Sample, SampleInput, Types};
use crate::error::{Code, Error, OrRaise, Result};
use crate::tensor::{Array, AsTensor, Attr, Attrs, DType, Element, OpInfo, Scalar, Tensor, Type, apply1};
use crate::with_element;
use smallvec::smallvec;

/// The i64 position of the largest element along the axis of attribute 0; the first of equals,
/// and that of the first nan.
pub static ARGMAX: OpDef = OpDef {
    info: OpInfo { number: 320, name: "argmax", attrs: &["axis"] },
    infer,
    eval: |attrs, inputs| evaluate(attrs, inputs[0], |a, b| a > b),
    derivative: Derivative::Zero,
    batching: Batching::Rule(|it| it.apply(&it.shifted(0), it.inputs)),
    lowering: Lowering::Library,
    samples,
};

/// The i64 position of the smallest element along the axis of attribute 0; the first of equals,
/// and that of the first nan.
pub static ARGMIN: OpDef = OpDef {
    info: OpInfo { number: 321, name: "argmin", attrs: &["axis"] },
    infer,
    eval: |attrs, inputs| evaluate(attrs, inputs[0], |a, b| a < b),
    derivative: Derivative::Zero,
    batching: Batching::Rule(|it| it.apply(&it.shifted(0), it.inputs)),
    lowering: Lowering::Library,
    samples,
};

fn infer(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    let mut dims = inputs[0].dims.clone();
    let axis = stored_axis(attrs.int(0), dims.len())?;
    if dims[axis] == 0 {
        return Err(Error::new(Code::Argument, format!("axis {axis} of {} has no extreme element", inputs[0])));
    }
    dims.remove(axis);
    Ok(smallvec![Type::new(DType::I64, dims)])
}

fn evaluate(attrs: &Attrs, x: &Array, beats: fn(f64, f64) -> bool) -> Result<Arrays> {
    let axis = attrs.int(0) as usize;
    let size = x.shape()[axis];
    let mut order: Vec<usize> = (0..x.layout().rank()).filter(|&it| it != axis).collect();
    order.push(axis);
    let x = x.with_layout(x.layout().permute(&order));
    let kept = &x.shape()[..x.layout().rank() - 1];
    let mut out = Array::uninit(kept, DType::I64);
    with_element!(x.dtype(), T => {
        let values: Vec<T> = x.iter::<T>().collect();
        for (to, row) in out.as_mut_slice::<i64>().iter_mut().zip(values.chunks_exact(size)) {
            *to = position(row, beats) as i64;
        }
    });
    Ok(smallvec![out])
}

fn position<T: Element>(row: &[T], beats: fn(f64, f64) -> bool) -> usize {
    // Integers of 64 bits do not fit an f64; their order is decided by the exact difference.
    let exact = |a: Scalar, b: Scalar| match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => beats(a, b) || (a.is_nan() && !b.is_nan()),
        _ => {
            let difference = super::elementwise::wide(a) - super::elementwise::wide(b);
            beats(difference.signum() as f64, 0.0)
        }
    };
    let mut best = 0;
    for (at, &value) in row.iter().enumerate().skip(1) {
        let held = row[best].to_scalar();
        if !held.as_f64().is_nan() && exact(value.to_scalar(), held) {
            best = at;
        }
    }
    best
}

fn samples() -> Vec<Sample> {
    let axis: Attr = 1usize.into();
    vec![Sample::new([SampleInput::f32(&[3, 4, 2], -2.0, 2.0)]).attrs(Attrs::new([axis]))]
}

/// The position of the largest element along an axis, as i64.
#[track_caller]
pub fn argmax(x: impl AsTensor, axis: isize) -> Tensor {
    along(&ARGMAX, &x.as_tensor(), axis)
}

/// The position of the smallest element along an axis, as i64.
#[track_caller]
pub fn argmin(x: impl AsTensor, axis: isize) -> Tensor {
    along(&ARGMIN, &x.as_tensor(), axis)
}

#[track_caller]
fn along(def: &'static OpDef, x: &Tensor, axis: isize) -> Tensor {
    let axis = normalize_axis(axis, x.rank()).map_err(|it| it.with_op(def.name())).or_raise();
    apply1(def.op(), &Attrs::new([axis.into()]), &[x])
}
