//! `cumsum` and `cumprod`: cumulative sums and products.

use super::reduction::widened;
use crate::ops::core::axis::stored_axis;
use crate::ops::core::elementwise::wide;
use crate::ops::core::factors::Factors;
use crate::ops::core::host::{Axis, RunTotals, dense};
use crate::ops::core::wide::{Inner, run_rule};
use crate::ops::{
    Batching, Cotangents, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules, Types, Vjp,
    normalize_axis,
};
use crate::tensor::{Array, AsTensor, Attrs, DType, OpInfo, Scalar, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, Result, called};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`CUMSUM`] and [`CUMPROD`].
    pub struct CumulativeAttrs { axis: usize, exclusive: bool, reverse: bool }
}

/// Returns the cumulative sums along `axis`; exclusive if `exclusive` is set, and from the end if `reverse` is set.
pub static CUMSUM: OpDef = OpDef {
    info: OpInfo { number: 330, name: "cumsum", attrs: CumulativeAttrs::DECLARED },
    infer,
    eval: |attrs, inputs| Ok(smallvec![running(attrs, inputs[0], Scalar::Int(0), |a, b| a + b, |a, b| a + b)?]),
    effects: Effects::NONE,
    lowering: Lowering::Library,
    samples,
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let at = CumulativeAttrs::of(it.attrs);
            let (axis, exclusive, reverse) = (at.axis() as isize, at.exclusive(), at.reverse());
            smallvec![Some(cumsum_of(it.cotangent(), axis, exclusive, !reverse))]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs)),
        body: None,
    },
};

/// Returns the cumulative products along `axis`; exclusive if `exclusive` is set, and from the end if `reverse` is set.
pub static CUMPROD: OpDef = OpDef {
    info: OpInfo { number: 331, name: "cumprod", attrs: CumulativeAttrs::DECLARED },
    infer,
    eval: |attrs, inputs| Ok(smallvec![running(attrs, inputs[0], Scalar::Int(1), |a, b| a * b, i128::wrapping_mul)?]),
    effects: Effects::NONE,
    lowering: Lowering::Library,
    samples,
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| run_rule(product_gradient, Inner::DEFAULT, it)),
        finite_derivatives: false,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs)),
        body: None,
    },
};

/// Returns the gradient of each factor: the sum of the products of the other factors over the results that contain it.
fn product_gradient(it: &Vjp<'_>) -> Cotangents {
    let at = CumulativeAttrs::of(it.attrs);
    let (axis, exclusive, reverse) = (at.axis() as isize, at.exclusive(), at.reverse());
    let factors = Factors::of(&it.inputs[0]);
    let [count, sum, squares] = factors.zeros().map(|it| cumsum_of(it, axis, exclusive, reverse));
    let terms = it.cotangent() * along(&CUMPROD, factors.nonzero(), axis, exclusive, reverse);
    smallvec![Some(factors.of_running(&terms, &count, &sum, &squares, |it| cumsum_of(it, axis, exclusive, !reverse)))]
}

fn infer(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    if inputs[0].dtype == DType::Bool {
        return Err(Error::new(Code::DType, "takes numbers, not bool").help("cast first"));
    }
    stored_axis(CumulativeAttrs::of(attrs).axis(), inputs[0].rank())?;
    Ok(smallvec![inputs[0].clone()])
}

/// Accumulates along `axis`: floats in f64 in the order of [`RunTotals`], integers wrapping.
fn running(
    attrs: &Attrs,
    x: &Array,
    start: Scalar,
    float: fn(f64, f64) -> f64,
    int: fn(i128, i128) -> i128,
) -> Result<Array> {
    let at = CumulativeAttrs::of(attrs);
    let (x, exclusive, reverse) = (dense(x)?, at.exclusive(), at.reverse());
    let axis = Axis::of(x.shape(), at.axis());
    let mut out = Array::zeros(x.shape(), x.dtype());
    let (from, mut to) = (x.elements(), out.elements_mut());
    for outer in 0..axis.outer {
        for inner in 0..axis.inner {
            let place = |step: usize| {
                let step = if reverse { axis.size - 1 - step } else { step };
                (outer * axis.size + step) * axis.inner + inner
            };
            if x.dtype().is_float() {
                let mut totals = RunTotals::new(start.as_f64());
                let mut before = start.as_f64();
                for first in (0..axis.size).step_by(RunTotals::RUN) {
                    let mut run = start.as_f64();
                    for at in (first..axis.size.min(first + RunTotals::RUN)).map(place) {
                        let next = float(run, from.get(at).as_f64());
                        to.set(at, Scalar::Float(float(before, if exclusive { run } else { next })));
                        run = next;
                    }
                    before = totals.push(run, float);
                }
            } else {
                let mut held = start;
                for at in (0..axis.size).map(place) {
                    let next = Scalar::Int(int(wide(held), wide(from.get(at))) as i64).convert(x.dtype());
                    to.set(at, if exclusive { held } else { next });
                    held = next;
                }
            }
        }
    }
    Ok(out)
}

fn samples() -> Vec<Sample> {
    let sample = |dtype, axis: usize, exclusive: bool, reverse: bool| {
        Sample::new([SampleInput::of(dtype, &[3, 4, 2], 0.5, 2.0)])
            .attrs(CumulativeAttrs::attrs(axis, exclusive, reverse))
    };
    vec![
        sample(DType::F32, 1, false, false),
        sample(DType::F32, 0, true, false),
        sample(DType::F64, 2, false, true),
        sample(DType::I32, 1, true, true),
    ]
}

#[track_caller]
fn along(def: &'static OpDef, x: &Tensor, axis: isize, exclusive: bool, reverse: bool) -> Tensor {
    let x = x.cast(widened(x.dtype()));
    propagate_poison!(&x);
    let axis = or_poison!(normalize_axis(axis, x.rank()).map_err(|it| it.with_op(def.name())));
    apply1(def.op(), &CumulativeAttrs::attrs(axis, exclusive, reverse), &[&x])
}

/// Returns the cumulative sums along an axis; bools and narrow integers are summed in 64 bits.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::cumsum(tensor![1, 2, 3], 0).to_vec::<i64>(), [1, 3, 6]);
/// ```
#[track_caller]
pub fn cumsum(x: impl AsTensor, axis: isize) -> Tensor {
    along(&CUMSUM, &x.as_tensor(), axis, false, false)
}

/// Returns the [`cumsum`], without the element at each position if `exclusive`, and from the end if `reverse`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::cumsum_of(tensor![1, 2, 3], 0, true, true).to_vec::<i64>(), [5, 3, 0]);
/// ```
#[track_caller]
pub fn cumsum_of(x: impl AsTensor, axis: isize, exclusive: bool, reverse: bool) -> Tensor {
    let _called = called("cumsum_of");
    along(&CUMSUM, &x.as_tensor(), axis, exclusive, reverse)
}

/// Returns the cumulative products along an axis; bools and narrow integers are multiplied in 64 bits.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::cumprod(tensor![2, 3, 4], 0).to_vec::<i64>(), [2, 6, 24]);
/// ```
#[track_caller]
pub fn cumprod(x: impl AsTensor, axis: isize) -> Tensor {
    along(&CUMPROD, &x.as_tensor(), axis, false, false)
}

/// Returns the [`cumprod`], without the element at each position if `exclusive`, and from the end if `reverse`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::cumprod_of(tensor![2, 3, 4], 0, true, false).to_vec::<i64>(), [1, 2, 6]);
/// ```
#[track_caller]
pub fn cumprod_of(x: impl AsTensor, axis: isize, exclusive: bool, reverse: bool) -> Tensor {
    let _called = called("cumprod_of");
    along(&CUMPROD, &x.as_tensor(), axis, exclusive, reverse)
}
