//! Functions and traits that the expansion of `custom_op!` calls.

use super::{Declaration, OperandView, ResultView};
use crate::ops::core::host::dense;
use crate::ops::{Arrays, Types};
use crate::tensor::{self, Array, Attr, AttrKind, Attrs, DType, Eagerly, HostArray, Outputs, Tensor, Type};
use ms_ir::error::{Code, Error, OrRaise, Result, collecting};
use smallvec::SmallVec;
use std::any::Any;
use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Types of attributes of custom ops: host values that are part of the graph.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a custom op",
    label = "neither a tensor nor a host value",
    note = "operands are `&Tensor` or `impl AsTensor`; attributes are `bool`, `i32`, `u32`, `i64`, `usize`, `f32`, \
            `f64`, `DType`, `&str` and `&[i64]`"
)]
pub trait AttributeValue<'a>: Sized {
    /// The kind of the attribute.
    const KIND: AttrKind;

    /// Converts the value to an attribute.
    fn attr(self) -> Attr;

    /// Returns the value of an attribute; `None` if it has another kind.
    fn value(attr: &'a Attr) -> Option<Self>;
}

macro_rules! attribute_values {
    ($($ty:ty: $kind:ident |$it:ident| $read:expr, $write:expr;)*) => {$(
        impl<'a> AttributeValue<'a> for $ty {
            const KIND: AttrKind = AttrKind::$kind;

            fn attr(self) -> Attr {
                let $it = self;
                Attr::$kind($write)
            }

            fn value(attr: &'a Attr) -> Option<Self> {
                match attr {
                    Attr::$kind($it) => $read,
                    _ => None,
                }
            }
        }
    )*};
}

attribute_values! {
    bool: Bool |it| Some(*it), it;
    i32: Int |it| Self::try_from(*it).ok(), it.into();
    u32: Int |it| Self::try_from(*it).ok(), it.into();
    i64: Int |it| Some(*it), it;
    usize: Int |it| Self::try_from(*it).ok(), i64::try_from(it).unwrap_or(i64::MAX);
    f32: Float |it| Some(*it as Self), it.into();
    f64: Float |it| Some(*it), it;
    DType: DType |it| Some(*it), it;
    &'a str: Str |it| Some(it), it.into();
    &'a [i64]: Ints |it| Some(it), it.into();
}

/// Returns the value of an attribute of a node.
///
/// # Panics
/// If the attribute has another kind, which the verifier refuses.
pub fn attribute<'a, T: AttributeValue<'a>>(attrs: &'a Attrs, at: usize) -> T {
    T::value(&attrs.as_slice()[at]).expect("the verifier refuses attributes of another kind")
}

/// The return value of a custom op's type rule: one type or several, or a `Result`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a type rule returns",
    label = "not `Type`, a tuple, an array or a `Vec` of them, or a `Result` of one of these"
)]
pub trait IntoTypes {
    /// Converts the return value to the types.
    ///
    /// # Errors
    /// The error that the rule returns.
    fn into_types(self) -> Result<Types>;
}

impl IntoTypes for Type {
    fn into_types(self) -> Result<Types> {
        Ok(Types::from_iter([self]))
    }
}

impl<const N: usize> IntoTypes for [Type; N] {
    fn into_types(self) -> Result<Types> {
        Ok(self.into_iter().collect())
    }
}

impl IntoTypes for Vec<Type> {
    fn into_types(self) -> Result<Types> {
        Ok(self.into())
    }
}

impl<T: IntoTypes, E: Into<Box<dyn StdError + Send + Sync>>> IntoTypes for Result<T, E> {
    fn into_types(self) -> Result<Types> {
        self.map_err(refused)?.into_types()
    }
}

/// The return value of a custom op's function: nothing, or a `Result`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what the function of a custom op returns",
    label = "neither `()` nor a `Result<(), E>` with an error"
)]
pub trait Outcome {
    /// Converts the return value to a result.
    ///
    /// # Errors
    /// The error that the function returns.
    fn outcome(self) -> Result<()>;
}

impl Outcome for () {
    fn outcome(self) -> Result<()> {
        Ok(())
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> Outcome for Result<(), E> {
    fn outcome(self) -> Result<()> {
        self.map_err(refused)
    }
}

/// Converts an error of a rule or a function to an error of the op.
fn refused(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    match error.into().downcast::<Error>() {
        Ok(error) => of_inner_op(&error),
        Err(error) => Error::new(Code::CustomOp, error.to_string()),
    }
}

/// Converts the error of an op that a function called to an error of the function's op.
fn of_inner_op(error: &Error) -> Error {
    let report = error.report();
    let message = match &report.op {
        Some(op) => format!("`{op}`: {}", report.message),
        None => report.message.clone(),
    };
    let outer = Error::new(report.code, message);
    match &report.help {
        Some(help) => outer.help(help.clone()),
        None => outer,
    }
}

/// Runs a user function, executing ops eagerly. Errors that it raises and panics become `Err`.
fn catch_user_code<R>(what: &str, f: impl FnOnce() -> Result<R>) -> Result<R> {
    let run = || tensor::with_dispatcher(Rc::new(Eagerly), || collecting(f));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok((result, errors)) => match (errors.first(), result) {
            (Some(error), _) => Err(of_inner_op(error)),
            (None, Some(result)) => result,
            (None, None) => Err(Error::new(Code::CustomOp, format!("{what} was left early"))),
        },
        Err(payload) => Err(Error::new(Code::CustomOp, format!("{what} panicked: {}", text_of(&*payload)))),
    }
}

pub(super) fn text_of(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "without a message",
    }
}

/// Infers the types of the results by the type rule.
///
/// The dtypes of operands are checked before the rule runs, and those of the results after it. `None` accepts any
/// dtype.
///
/// # Errors
/// [`Code::DType`] for an operand of a dtype that the function does not read. [`Code::CustomOp`] for a result of a
/// dtype that it does not write. The errors of the rule.
pub fn infer<T: IntoTypes>(
    inputs: &[&Type],
    operands: &[(&str, Option<DType>)],
    results: &[Option<DType>],
    rule: impl FnOnce(&[&Type]) -> T,
) -> Result<Types> {
    if inputs.len() != operands.len() {
        return Err(Error::new(Code::Argument, format!("{} operands, not {}", inputs.len(), operands.len())));
    }
    for ((name, wanted), given) in operands.iter().zip(inputs) {
        if let Some(wanted) = wanted.filter(|it| *it != given.dtype) {
            let message = format!("`{name}` is {given}, but `run` reads {wanted}");
            return Err(Error::new(Code::DType, message).help(format!("convert it by `.cast(DType::{wanted:?})`")));
        }
    }
    let types = catch_user_code("the type rule", || rule(inputs).into_types())?;
    if types.len() != results.len() {
        let message = format!("the type rule gives {} types for {} results", types.len(), results.len());
        return Err(Error::new(Code::CustomOp, message));
    }
    for (at, (ty, wanted)) in types.iter().zip(results).enumerate() {
        if let Some(wanted) = wanted.filter(|it| *it != ty.dtype) {
            let message = format!("the type rule says that result {at} is {ty}, but `run` writes {wanted}");
            return Err(Error::new(Code::CustomOp, message));
        }
    }
    Ok(types)
}

/// Runs the function on arrays. It writes results of the inferred types, which are zero-initialised.
///
/// # Errors
/// The errors of the type rule and of the function, and [`Code::Memory`] if the results cannot be allocated.
pub fn evaluate(
    infer: impl Fn(&Attrs, &[&Type]) -> Result<Types>,
    attrs: &Attrs,
    inputs: &[&Array],
    run: impl FnOnce(&[HostArray<'_>], &mut [Array]) -> Result<()>,
) -> Result<Arrays> {
    let types: SmallVec<[Type; 3]> = inputs.iter().map(|it| it.ty()).collect();
    let types = infer(attrs, &types.iter().collect::<SmallVec<[&Type; 3]>>())?;
    let host = inputs.iter().map(|it| dense(it)).collect::<Result<Vec<HostArray<'_>>>>()?;
    let zeros = |ty: &Type| {
        let shape = ty.shape().ok_or_else(|| Error::new(Code::CustomOp, format!("a result of the type {ty}")))?;
        Array::try_zeros(&shape, ty.dtype)
    };
    let mut results: Arrays = types.iter().map(zeros).collect::<Result<_>>()?;
    catch_user_code("`run`", || run(&host, &mut results))?;
    Ok(results)
}

/// Returns the view of an operand that a function takes.
///
/// # Errors
/// The errors of [`OperandView::of`].
pub fn operand<'a, T: OperandView<'a>>(array: &'a HostArray<'a>) -> Result<T> {
    T::of(array)
}

/// Returns the view of a result that a function takes.
///
/// # Errors
/// The errors of [`ResultView::of`].
pub fn result<'a, T: ResultView<'a>>(array: &'a mut Array) -> Result<T> {
    T::of(array)
}

/// The return value of a custom op for its callers: a tensor, or a tuple of tensors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a custom op",
    label = "neither `Tensor` nor a tuple of up to eight of them"
)]
pub trait FromResults {
    /// Converts the results of a node.
    fn from_results(results: Outputs) -> Self;
}

impl FromResults for Tensor {
    fn from_results(mut results: Outputs) -> Self {
        results.swap_remove(0)
    }
}

macro_rules! from_results {
    ($($($part:ident)+;)*) => {$(
        impl FromResults for ($(from_results!(@ $part),)+) {
            fn from_results(results: Outputs) -> Self {
                let mut results = results.into_iter();
                ($({
                    let $part = results.next();
                    $part.expect("an op has as many results as its declaration")
                },)+)
            }
        }
    )*};
    (@ $part:ident) => { Tensor };
}

from_results! { a; a b; a b c; a b c d; a b c d e; a b c d e f; a b c d e f g; a b c d e f g h; }

/// Applies a custom op.
#[track_caller]
pub fn apply<R: FromResults>(
    declaration: &'static Declaration,
    attrs: impl IntoIterator<Item = Attr>,
    inputs: &[&Tensor],
) -> R {
    let op = declaration.op().or_raise();
    R::from_results(tensor::apply(op, &Attrs::new(attrs), inputs).or_raise())
}
