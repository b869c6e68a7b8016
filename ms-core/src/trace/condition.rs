//! What annotated code decides on: host values, and tensors where their value is known.
//!
//! A condition on a traced tensor is refused here. Its place is taken by regions, which trace
//! both ways: the type of the condition, [`Condition`], is what tells the two apart.

use super::tracer::Tracer;
use crate::error::{Code, Error, OrRaise};
use crate::tensor::Tensor;
use std::panic::Location;

/// The condition of `if`, `while`, a guard, an assertion, or a side of `&&` and `||`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a condition",
    label = "expected `bool`, or a tensor with one bool"
)]
pub trait Condition {
    /// Which way to go.
    ///
    /// Raises [`Code::Condition`] for a traced tensor, and [`Code::Shape`] or [`Code::DType`] for
    /// a tensor that is not one bool.
    fn decide(&self) -> bool;
}

impl Condition for bool {
    #[inline]
    fn decide(&self) -> bool {
        *self
    }
}

impl Condition for Tensor {
    #[track_caller]
    fn decide(&self) -> bool {
        if let (Some(traced), Some(tracer)) = (self.as_traced(), Tracer::current()) {
            let message = format!("a compiled function cannot decide on a traced `{}`", traced.ty);
            let help = "compute both ways and choose with `ops::select`, or decide on a host value";
            tracer.refuse(traced, Error::new(Code::Condition, message).at(Location::caller()).help(help));
        }
        self.try_item::<bool>().map_err(|error| error.with_op("condition")).or_raise()
    }
}

impl Condition for &Tensor {
    #[track_caller]
    fn decide(&self) -> bool {
        (**self).decide()
    }
}

/// Decides on `condition`.
#[track_caller]
#[inline]
pub fn decide(condition: impl Condition) -> bool {
    condition.decide()
}

/// What `a && b` and `a || b` give: a bool for two bools, and a tensor otherwise.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{B}` cannot be combined by `&&` or `||`",
    label = "expected `bool`, or a tensor with one bool"
)]
pub trait Combine<B>: Sized {
    /// The result.
    type Output;

    /// The left side alone.
    fn left(self) -> Self::Output;
    /// The right side alone.
    fn right(b: B) -> Self::Output;
}

impl Combine<bool> for bool {
    type Output = bool;

    #[inline]
    fn left(self) -> bool {
        self
    }

    #[inline]
    fn right(b: bool) -> bool {
        b
    }
}

impl Combine<Tensor> for Tensor {
    type Output = Tensor;

    fn left(self) -> Tensor {
        self
    }

    fn right(b: Tensor) -> Tensor {
        b
    }
}

impl Combine<Tensor> for bool {
    type Output = Tensor;

    fn left(self) -> Tensor {
        Tensor::scalar(self)
    }

    fn right(b: Tensor) -> Tensor {
        b
    }
}

impl Combine<bool> for Tensor {
    type Output = Tensor;

    fn left(self) -> Tensor {
        self
    }

    fn right(b: bool) -> Tensor {
        Tensor::scalar(b)
    }
}

/// The left side of `&&` or `||`, evaluated; the right side runs only where it decides.
pub struct Logic<A> {
    left: A,
    runs_right: bool,
}

/// The left side of `&&`.
#[track_caller]
#[inline]
pub fn and<A: Condition>(left: A) -> Logic<A> {
    let runs_right = left.decide();
    Logic { left, runs_right }
}

/// The left side of `||`.
#[track_caller]
#[inline]
pub fn or<A: Condition>(left: A) -> Logic<A> {
    let runs_right = !left.decide();
    Logic { left, runs_right }
}

impl<A> Logic<A> {
    /// Whether the right side is evaluated.
    #[inline]
    pub fn runs_right(&self) -> bool {
        self.runs_right
    }

    /// The result, given the right side if it was evaluated.
    #[inline]
    pub fn end<B>(self, right: Option<B>) -> A::Output
    where
        A: Combine<B>,
    {
        match right {
            Some(right) => A::right(right),
            None => self.left.left(),
        }
    }
}
