//! Defines the conditions of annotated code: the type of a condition determines the kind of the region.

use crate::trace::tracer::Tracer;
use ms_ir::error::{Code, Error, OrRaise, Result};
use ms_ops::ops;
use ms_ops::tensor::{DType, Tensor};
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;

/// Regions on host values: plain Rust.
pub struct Host;

/// Regions on tensors: both arms are traced, unless the tensor's value is known.
pub struct OnTensor;

/// [`Host`] or [`OnTensor`].
pub trait Kind {
    /// Whether the conditions are tensors.
    const ON_TENSOR: bool;
}

impl Kind for Host {
    const ON_TENSOR: bool = false;
}

impl Kind for OnTensor {
    const ON_TENSOR: bool = true;
}

/// Regions in which variables without a previous value may be initialised.
#[diagnostic::on_unimplemented(
    message = "a variable without a value before a decision on a tensor",
    label = "assigned inside, and declared without a value",
    note = "write `let y = if .. {{ .. }} else {{ .. }};`, or give it a value where it is declared; for more information, \
            run `ms explain MS012`"
)]
pub trait Deferring: Sized {
    /// Makes rustc report a variable without a value.
    #[inline]
    fn accept(_: PhantomData<Self>) {}
}

#[diagnostic::do_not_recommend]
impl Deferring for Host {}

/// The outcome of a condition.
pub enum Decision {
    /// A known value.
    Known(bool),
    /// A `bool[]` of a trace, known only at run time.
    Traced(Rc<Tracer>, Tensor),
}

/// The condition of `if`, `while`, a guard, an assertion, or an operand of `&&` and `||`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a condition",
    label = "expected `bool`, or a tensor with one bool"
)]
pub trait Condition {
    /// The kind of the region.
    type Kind: Kind;
    /// Whether it is the condition that no jump skips the following code.
    const SKIPS: bool = false;

    /// Returns the outcome.
    ///
    /// Raises [`Code::Shape`] or [`Code::DType`] for a tensor that is not one bool.
    fn decision(&self) -> Decision;
}

#[diagnostic::do_not_recommend]
impl Condition for bool {
    type Kind = Host;

    #[inline]
    fn decision(&self) -> Decision {
        Decision::Known(*self)
    }
}

#[diagnostic::do_not_recommend]
impl Condition for Tensor {
    type Kind = OnTensor;

    #[track_caller]
    fn decision(&self) -> Decision {
        match Tracer::current() {
            None => Decision::Known(self.try_item::<bool>().map_err(|error| error.with_op("condition")).or_raise()),
            Some(tracer) => match one_bool(&tracer, self) {
                Ok(condition) => Decision::Traced(tracer, condition),
                Err(error) => {
                    tracer.report(error.with_op("condition").at(Location::caller()));
                    let poisoned = tracer.poisoned(ms_ops::tensor::Type::of(DType::Bool, &[]));
                    Decision::Traced(tracer, poisoned)
                }
            },
        }
    }
}

#[diagnostic::do_not_recommend]
impl Condition for &Tensor {
    type Kind = OnTensor;

    #[track_caller]
    fn decision(&self) -> Decision {
        (**self).decision()
    }
}

/// Converts the condition to a `bool[]`.
#[track_caller]
fn one_bool(tracer: &Tracer, condition: &Tensor) -> Result<Tensor> {
    let condition = tracer.value(condition)?;
    let ty = condition.ty();
    if condition.is_poisoned() {
        return Ok(condition);
    }
    if ty.dtype != DType::Bool {
        return Err(Error::new(Code::DType, format!("one bool decides, not {ty}")).help("compare it: `x != 0.0`"));
    }
    if ty.dims.iter().any(|it| it.as_const() != Some(1)) {
        return Err(Error::new(Code::Shape, format!("one bool decides, not {ty}"))
            .help("reduce it with `.all(..)` or `.any(..)`, or choose element by element with `ops::select`"));
    }
    Ok(if ty.dims.is_empty() { condition } else { ops::reshape(&condition, [0usize; 0]) })
}

/// Evaluates `condition` where no region is possible: in the guard of a `match`, and together with patterns.
///
/// Raises [`Code::Condition`] for a traced tensor.
#[track_caller]
#[inline]
pub fn decide(condition: impl Condition) -> bool {
    match condition.decision() {
        Decision::Known(way) => way,
        Decision::Traced(tracer, condition) => refuse(&tracer, &condition, Location::caller()),
    }
}

#[cold]
fn refuse(tracer: &Tracer, condition: &Tensor, location: &'static Location<'static>) -> ! {
    let traced = condition.as_traced().expect("a traced decision has a traced condition");
    let message = format!("a decision on a traced `{}` cannot be made here", traced.ty);
    let help = "write it as the condition of an `if` or `while` in a function with `#[jit]` or `#[cell]`, \
                or choose with `ops::select`";
    tracer.refuse(traced, Error::new(Code::Condition, message).at(location).help(help))
}

/// An assertable value: a bool, or a tensor of bools, all of which must be true.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be asserted",
    label = "expected `bool`, or a tensor of bools"
)]
pub trait Assertion {
    /// Returns whether it is true; `text` is for the message. Tensors are asserted in program order with other effects,
    /// see [`ops::assert_that`], and return true.
    fn holds(&self, text: &str) -> bool;
}

impl Assertion for bool {
    #[inline]
    fn holds(&self, _: &str) -> bool {
        *self
    }
}

impl Assertion for Tensor {
    #[track_caller]
    fn holds(&self, text: &str) -> bool {
        // Braces would be parsed as placeholders.
        ops::assert_that(self, &text.replace('{', "(").replace('}', ")"), &[]);
        true
    }
}

impl Assertion for &Tensor {
    #[track_caller]
    fn holds(&self, text: &str) -> bool {
        (**self).holds(text)
    }
}

/// Returns whether an assertion is true.
#[track_caller]
#[inline]
pub fn holds(condition: impl Assertion, text: &str) -> bool {
    condition.holds(text)
}
