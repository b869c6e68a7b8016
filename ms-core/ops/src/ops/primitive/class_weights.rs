//! `class_weights`: checked class weights for sampling.

use crate::ops::core::checked::evaluate;
use crate::ops::{
    Batching, CheckRule, Derivative, Effects, Extent, Lowering, OpDef, Refused, Sample, SampleInput, TransformRules,
    sum,
};
use crate::tensor::{Attrs, DType, Dim, OpInfo, Tensor, apply1};
use ms_ir::body::body as build_body;
use ms_ir::error::{Code, Error};
use ms_ir::{KernelBuilder, Val};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`CLASS_WEIGHTS`].
    struct ClassWeightsAttrs { classes: Extent where 0..=i64::MAX, logits: bool, caller: str }
}

attributes! {
    /// The attributes of [`POSSIBLE_CLASSES`].
    struct PossibleClassesAttrs { drawn: Extent, caller: str }
}

/// Returns the operand, floats with a row of `classes` elements along the last axis, and fails unless each is a weight,
/// finite and not negative, or the logarithm of one if `logits` is set. `caller` is the op in the error. The result has
/// no gradient, because samples have none.
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
    eval: |attrs, inputs| {
        let zero = zero(attrs);
        evaluate(&CLASS_WEIGHTS, attrs, inputs, |weight| (zero..f64::INFINITY).contains(&weight.as_f64()))
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Check(CheckRule { operand: 0, accepts, refuse }),
    samples: || {
        let of = |shape: &[usize], lowest: f64, logits: bool| {
            let attrs = ClassWeightsAttrs::attrs(3i64, logits, "sample");
            Sample::new([SampleInput::f32(shape, lowest, 2.0)]).attrs(attrs)
        };
        vec![of(&[3], 0.5, false), of(&[2, 3], 0.5, false), of(&[2, 2, 3], -2.0, true)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
        body: None,
    },
};

/// Returns the first operand, rows of weights, and fails unless each element of the second one, the number of classes
/// in a row whose weight is above zero, is at least `drawn`. `caller` is the op in the error. The result has no
/// gradient.
pub static POSSIBLE_CLASSES: OpDef = OpDef {
    info: OpInfo { number: 397, name: "possible_classes", attrs: PossibleClassesAttrs::DECLARED },
    infer: |_, inputs| match inputs {
        [weights, counts] if counts.dtype == DType::I64 => Ok(smallvec![(*weights).clone()]),
        _ => Err(Error::new(Code::DType, "numbers of classes are i64")),
    },
    eval: |attrs, inputs| {
        let drawn = PossibleClassesAttrs::of(attrs).drawn().as_known().unwrap_or(0);
        evaluate(&POSSIBLE_CLASSES, attrs, inputs, |possible| possible.as_i64() >= drawn)
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Check(CheckRule { operand: 1, accepts: accepts_count, refuse: refuse_count }),
    samples: || {
        let counts = SampleInput::of(DType::I64, &[8], 2.0, 3.0);
        let attrs = PossibleClassesAttrs::attrs(2i64, "sample");
        vec![Sample::new([SampleInput::f32(&[8, 3], 0.5, 2.0), counts]).attrs(attrs)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, &it.spread_all())),
        body: None,
    },
};

/// Returns the size of a row.
fn of(attrs: &Attrs) -> Dim {
    ClassWeightsAttrs::of(attrs).classes()
}

/// Returns the weight of a class that is never drawn, or its logarithm.
fn zero(attrs: &Attrs) -> f64 {
    if ClassWeightsAttrs::of(attrs).logits() { f64::NEG_INFINITY } else { 0.0 }
}

/// Builds whether a weight is at least [`zero`] and not infinite. The comparisons with NaN are false.
fn accepts(attrs: &Attrs, body: &mut KernelBuilder, weight: Val, _: &[Val]) -> Val {
    let zero = zero(attrs);
    build_body(body, &[weight], |[weight]| weight.ge(zero) & weight.lt(f64::INFINITY))
}

fn refuse(attrs: &Attrs, refused: &Refused<'_>) -> Error {
    let it = ClassWeightsAttrs::of(attrs);
    let classes = it.classes().as_const().unwrap_or(1).max(1);
    let (row, class) = (refused.position / classes, refused.position % classes);
    let message = format!("the weight of class {class} in row {row} is {}", refused.element);
    Error::new(Code::Argument, message).with_op(it.caller()).help(match it.logits() {
        true => "logits are finite, or -inf for a class that is never drawn",
        false => "weights are finite and at least 0",
    })
}

/// Builds whether a number of possible classes is at least the number of those that are drawn.
fn accepts_count(_: &Attrs, body: &mut KernelBuilder, possible: Val, sizes: &[Val]) -> Val {
    build_body(body, &[possible, sizes[0]], |[possible, drawn]| possible.ge(drawn))
}

fn refuse_count(attrs: &Attrs, refused: &Refused<'_>) -> Error {
    let it = PossibleClassesAttrs::of(attrs);
    let (row, possible) = (refused.position, refused.element);
    let message = format!("{possible} classes in row {row} have a weight above 0, and {} are drawn", it.drawn());
    Error::new(Code::Argument, message).with_op(it.caller()).help("without replacement, a class is drawn once at most")
}

/// Returns rows of weights, or of logits, along the last axis. An invalid weight, or a row with fewer than `possible`
/// classes to draw, is an error at run time.
#[track_caller]
pub(in crate::ops) fn weights(x: &Tensor, possible: usize, logits: bool, caller: &str) -> Tensor {
    let classes = x.dims().last().copied().unwrap_or(Dim::new(0));
    let attrs = ClassWeightsAttrs::attrs(classes, logits, caller);
    let x = apply1(CLASS_WEIGHTS.op(), &attrs, &[x]);
    let counts = sum(x.gt(zero(&attrs)), -1);
    apply1(POSSIBLE_CLASSES.op(), &PossibleClassesAttrs::attrs(possible as i64, caller), &[&x, &counts])
}
