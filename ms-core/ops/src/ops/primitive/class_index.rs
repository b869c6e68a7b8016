//! `class_index`: checked class indices.

use crate::ops::core::checked::evaluate;
use crate::ops::core::indices::check_index;
use crate::ops::{Batching, Derivative, Effects, Extent, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{Attrs, DType, Dim, OpInfo, Tensor, apply1};
use ms_ir::error::{Code, Error, Result};
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
    eval: |attrs, inputs| evaluate(check_classes, attrs, inputs),
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Check(check_classes),
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

/// Checks that every class exists or is ignored: [`CLASS_INDEX`] on the bytes of elements of an integer dtype.
///
/// # Errors
/// [`Code::OutOfRange`] for the first class that does not exist.
///
/// # Panics
/// If the bytes are not aligned for the elements.
pub fn check_classes(attrs: &Attrs, dtype: DType, classes: &[u8]) -> Result<()> {
    macro_rules! check {
        ($($dtype:ident $ty:ty,)*) => {
            match dtype {
                $(DType::$dtype => check(attrs, bytemuck::cast_slice::<u8, $ty>(classes), |it| it as i64),)*
                other => unreachable!("classes are integers, not {other}"),
            }
        };
    }
    check! { I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, }
}

#[inline]
fn check<T: Copy>(attrs: &Attrs, classes: &[T], wide: impl Fn(T) -> i64) -> Result<()> {
    // As unsigned numbers, negative ones and ones beyond i64 are too large.
    let count = ClassIndexAttrs::of(attrs).classes().as_const().unwrap_or(0) as u64;
    let exists = |it: T| (wide(it) as u64) < count;
    // Without an early exit, the loop is vectorised.
    if classes.iter().fold(true, |all, &it| all & exists(it)) {
        return Ok(());
    }
    let ignored = ClassIndexAttrs::of(attrs).ignored().as_slice().first().copied();
    match classes.iter().position(|&it| !exists(it) && Some(wide(it)) != ignored) {
        None => Ok(()),
        Some(at) => Err(refusal(attrs, at, wide(classes[at]))),
    }
}

#[cold]
fn refusal(attrs: &Attrs, at: usize, class: i64) -> Error {
    let count = ClassIndexAttrs::of(attrs).classes();
    let message = format!("element {at} is of class {class}, which does not exist: there are {count}");
    let help = match ClassIndexAttrs::of(attrs).ignored().as_slice().first() {
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
