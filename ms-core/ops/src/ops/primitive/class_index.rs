//! `class_index`: checked class indices.

use crate::ops::core::checked::evaluate;
use crate::ops::core::indices::check_index;
use crate::ops::{
    Batching, CheckRule, Derivative, Effects, Extent, Lowering, OpDef, Refused, Sample, SampleInput, TransformRules,
};
use crate::tensor::{Attrs, DType, Dim, OpInfo, Tensor, apply1};
use ms_ir::body::body as build_body;
use ms_ir::error::{Code, Error};
use ms_ir::{KernelBuilder, Val};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`CLASS_INDEX`].
    struct ClassIndexAttrs { classes: Extent where 0..=i64::MAX, ignored: [i64], caller: str }
}

/// Returns the operand, and fails unless its elements are at least 0 and less than `classes`. An element equal to the
/// one in `ignored`, if given, passes. `caller` is the op in the error.
pub static CLASS_INDEX: OpDef = OpDef {
    info: OpInfo { number: 387, name: "class_index", attrs: ClassIndexAttrs::DECLARED },
    infer: |_, inputs| check_index(inputs[0]).map(|()| smallvec![inputs[0].clone()]),
    eval: |attrs, inputs| {
        let count = ClassIndexAttrs::of(attrs).classes().as_const().unwrap_or(0);
        evaluate(&CLASS_INDEX, attrs, inputs, |class| {
            let class = class.as_i64();
            usize::try_from(class).is_ok_and(|it| it < count) || Some(class) == ignored(attrs)
        })
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Check(CheckRule { operand: 0, accepts, refuse }),
    samples: || {
        let of = |dtype: DType, shape: &[usize], ignored: &[i64], lowest: f64| {
            let attrs = ClassIndexAttrs::attrs(4i64, ignored, "sample");
            Sample::new([SampleInput::of(dtype, shape, lowest, 3.0)]).attrs(attrs)
        };
        vec![of(DType::I64, &[5], &[], 0.0), of(DType::I32, &[2, 3], &[-1], -1.0), of(DType::U8, &[], &[], 0.0)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
        body: None,
    },
};

/// Builds whether a class exists or is ignored.
fn accepts(attrs: &Attrs, body: &mut KernelBuilder, class: Val, sizes: &[Val]) -> Val {
    let ignored = ignored(attrs);
    build_body(body, &[class, sizes[0]], |[class, classes]| {
        let class = class.cast(DType::I64);
        // As unsigned numbers, negative ones and ones beyond i64 are too large.
        let exists = class.cast(DType::U64).lt(classes.cast(DType::U64));
        match ignored {
            Some(ignored) => exists | class.eq(ignored),
            None => exists,
        }
    })
}

fn ignored(attrs: &Attrs) -> Option<i64> {
    ClassIndexAttrs::of(attrs).ignored().as_slice().first().copied()
}

fn refuse(attrs: &Attrs, refused: &Refused<'_>) -> Error {
    let (at, class) = (refused.position, refused.element.as_i64());
    let count = ClassIndexAttrs::of(attrs).classes();
    let message = format!("element {at} is of class {class}, which does not exist: there are {count}");
    let help = match ignored(attrs) {
        Some(ignored) => format!("classes go from 0 to {}, and {ignored} is left out", count - 1),
        None if ClassIndexAttrs::of(attrs).caller() == "one_hot" => format!("classes go from 0 to {}", count - 1),
        None => format!("classes go from 0 to {}; `ignore_index` names one that is left out", count - 1),
    };
    Error::new(Code::OutOfRange, message).with_op(ClassIndexAttrs::of(attrs).caller()).help(help)
}

/// Returns the classes; a class that does not exist is an error at run time.
#[track_caller]
pub(in crate::ops) fn existing(classes: &Tensor, count: Dim, ignored: Option<i64>, caller: &str) -> Tensor {
    let ignored: &[i64] = ignored.as_slice();
    apply1(CLASS_INDEX.op(), &ClassIndexAttrs::attrs(count, ignored, caller), &[classes])
}
