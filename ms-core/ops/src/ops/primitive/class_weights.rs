//! `class_weights`: checked class weights for sampling.

use crate::ops::core::checked::evaluate;
use crate::ops::{Batching, Derivative, Effects, Extent, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{Attrs, DType, Dim, Element, OpInfo, Tensor, apply1};
use bytemuck::Pod;
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`CLASS_WEIGHTS`].
    struct ClassWeightsAttrs { classes: Extent where 0..=i64::MAX, possible: i64, logits: bool, caller: str }
}

/// Returns the operand, floats with a row of `classes` elements along the last axis, and fails unless each row is
/// valid.
///
/// The elements of a row are weights, finite and not negative, or logarithms of weights if `logits` is set. At least
/// `possible` of the weights are not zero. `caller` is the op in the error. The result has no gradient, because samples
/// have none.
pub static CLASS_WEIGHTS: OpDef = OpDef {
    info: OpInfo { number: 388, name: "class_weights", attrs: ClassWeightsAttrs::DECLARED },
    infer: |attrs, inputs| {
        if !inputs[0].dtype.is_float() {
            return Err(Error::new(Code::DType, format!("weights are floats here, not {}", inputs[0].dtype)));
        }
        let classes = inputs[0].dims.last();
        if classes.is_none_or(|it| *it == Dim::new(0) || !it.may_equal(of(attrs))) {
            let message = format!("a row of at least one weight is along the last axis, and {} has none", inputs[0]);
            return Err(Error::new(Code::Shape, message));
        }
        Ok(smallvec![inputs[0].clone()])
    },
    eval: |attrs, inputs| evaluate(check_weights, attrs, inputs),
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Check(check_weights),
    samples: || {
        let of = |shape: &[usize], lowest: f64, possible: i64, logits: bool| {
            let attrs = ClassWeightsAttrs::attrs(3i64, possible, logits, "sample");
            Sample::new([SampleInput::f32(shape, lowest, 2.0)]).attrs(attrs)
        };
        vec![of(&[3], 0.5, 1, false), of(&[2, 3], 0.5, 3, false), of(&[2, 2, 3], -2.0, 2, true)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
        body: None,
    },
};

/// Returns the size of a row.
fn of(attrs: &Attrs) -> Dim {
    ClassWeightsAttrs::of(attrs).classes()
}

/// Checks every row of the bytes of elements.
///
/// # Errors
/// [`Code::Argument`] for the first invalid row.
fn check_weights(attrs: &Attrs, dtype: DType, bytes: &[u8]) -> Result<()> {
    fn check<T: Element + Pod>(attrs: &Attrs, bytes: &[u8]) -> Result<()> {
        // Empty rows have no weights to check.
        let classes = of(attrs).as_const().unwrap_or(0).max(1);
        let mut rows = bytemuck::cast_slice::<u8, T>(bytes).chunks(classes).enumerate();
        rows.try_for_each(|(row, weights)| check_row(attrs, row, weights))
    }
    match dtype {
        DType::F16 => check::<half::f16>(attrs, bytes),
        DType::BF16 => check::<half::bf16>(attrs, bytes),
        DType::F32 => check::<f32>(attrs, bytes),
        DType::F64 => check::<f64>(attrs, bytes),
        other => unreachable!("weights are floats, not {other}"),
    }
}

fn check_row<T: Element>(attrs: &Attrs, row: usize, weights: &[T]) -> Result<()> {
    let it = ClassWeightsAttrs::of(attrs);
    let (caller, wanted) = (it.caller(), it.possible());
    let zero = if it.logits() { f64::NEG_INFINITY } else { 0.0 };
    let values = || weights.iter().map(|it| it.to_scalar().as_f64());
    // Comparisons with NaN are false.
    if let Some(class) = values().position(|it| !(it >= zero && it < f64::INFINITY)) {
        let message = format!("the weight of class {class} in row {row} is {}", weights[class].to_scalar());
        let help = match it.logits() {
            true => "logits are finite, or -inf for a class that is never drawn",
            false => "weights are finite and at least 0",
        };
        return Err(refusal(caller, message, help));
    }
    let possible = values().filter(|&it| it > zero).count();
    if (possible as i64) < wanted {
        let message = format!("{possible} classes in row {row} have a weight above 0, and {wanted} are drawn");
        return Err(refusal(caller, message, "without replacement, a class is drawn once at most"));
    }
    Ok(())
}

#[cold]
fn refusal(caller: &str, message: String, help: &str) -> Error {
    Error::new(Code::Argument, message).with_op(caller).help(help)
}

/// Returns rows of weights, or of logits, along the last axis. An invalid row, or one with fewer than `possible`
/// classes to draw, is an error at run time.
#[track_caller]
pub(in crate::ops) fn weights(x: &Tensor, possible: usize, logits: bool, caller: &str) -> Tensor {
    let classes = x.dims().last().copied().unwrap_or(Dim::new(0));
    apply1(CLASS_WEIGHTS.op(), &ClassWeightsAttrs::attrs(classes, possible as i64, logits, caller), &[x])
}
