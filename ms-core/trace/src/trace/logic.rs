//! Implements `&&` and `||` of annotated code.
//!
//! The right operand is a region. On host values it is short-circuited as in Rust. On a traced tensor it is traced
//! together with the left operand, or in a branch if it has writes. If the right operand changes variables, the
//! expansion is an `if` with a value instead, whose arms have the values [`truth`] and [`known`].

use super::region::{Branch, Condition, Decision, Host, OnTensor, Open, Reach};
use ms_ops::ops;
use ms_ops::tensor::Tensor;
use std::panic::Location;

/// The result of `a && b` and `a || b`: a bool for two bools, and a tensor otherwise.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{B}` cannot be combined by `&&` or `||`",
    label = "expected `bool`, or a tensor with one bool"
)]
pub trait Combine<B>: Sized {
    /// The result.
    type Output;

    /// Returns the left operand alone.
    fn left(self) -> Self::Output;
    /// Returns the right operand alone.
    fn right(b: B) -> Self::Output;
    /// Returns the result for a right operand that is a tensor, by `combine`.
    fn traced(right: Self::Output, combine: impl FnOnce(Tensor) -> Tensor) -> Self::Output;
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

    fn traced(right: bool, _: impl FnOnce(Tensor) -> Tensor) -> bool {
        right
    }
}

macro_rules! tensors {
    ($($a:ty, $b:ty: |$left:ident| $left_tensor:expr, |$right:ident| $right_tensor:expr;)*) => {$(
        impl Combine<$b> for $a {
            type Output = Tensor;

            fn left(self) -> Tensor {
                let $left = self;
                $left_tensor
            }

            fn right($right: $b) -> Tensor {
                $right_tensor
            }

            fn traced(right: Tensor, combine: impl FnOnce(Tensor) -> Tensor) -> Tensor {
                combine(right)
            }
        }
    )*};
}

tensors! {
    Tensor, Tensor: |a| a, |b| b;
    Tensor, &Tensor: |a| a, |b| b.clone();
    Tensor, bool: |a| a, |b| Tensor::scalar(b);
    &Tensor, Tensor: |a| a.clone(), |b| b;
    &Tensor, &Tensor: |a| a.clone(), |b| b.clone();
    &Tensor, bool: |a| a.clone(), |b| Tensor::scalar(b);
    bool, Tensor: |a| Tensor::scalar(a), |b| b;
    bool, &Tensor: |a| Tensor::scalar(a), |b| b.clone();
}

/// The right operand of `&&` or `||` as the value of an arm: a bool for a host condition on bools,
/// and a tensor otherwise.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the right side of `&&` or `||`",
    label = "expected `bool`, or a tensor with one bool"
)]
pub trait Truth<K> {
    /// The type of the value of the arm.
    type Output;

    /// Returns the value.
    #[track_caller]
    fn truth(self) -> Self::Output;
}

macro_rules! truths {
    ($($kind:ty, $from:ty => $to:ty: |$it:ident| $value:expr;)*) => {$(
        impl Truth<$kind> for $from {
            type Output = $to;

            #[inline]
            #[track_caller]
            fn truth(self) -> $to {
                let $it = self;
                $value
            }
        }
    )*};
}

truths! {
    Host, bool => bool: |it| it;
    Host, Tensor => Tensor: |it| it;
    Host, &Tensor => Tensor: |it| it.clone();
    OnTensor, bool => Tensor: |it| Tensor::scalar(it);
    OnTensor, Tensor => Tensor: |it| without_axes(&it);
    OnTensor, &Tensor => Tensor: |it| without_axes(it);
}

/// Reshapes a tensor with one bool to `bool[]`, the type of the other arm.
#[track_caller]
fn without_axes(it: &Tensor) -> Tensor {
    match it.decision() {
        Decision::Known(way) => Tensor::scalar(way),
        Decision::Traced(_, condition) => condition,
    }
}

/// Returns the right operand as the value of an arm of `region`, whose condition is the left operand.
#[inline]
#[track_caller]
pub fn truth<K, B: Truth<K>>(_: &Branch<K>, right: B) -> B::Output {
    right.truth()
}

/// A truth value without a right operand.
pub trait Known {
    /// Returns the value.
    fn known(value: bool) -> Self;
}

impl Known for bool {
    #[inline]
    fn known(value: bool) -> bool {
        value
    }
}

impl Known for Tensor {
    fn known(value: bool) -> Tensor {
        Tensor::scalar(value)
    }
}

/// Returns the value of the arm that the left operand alone determines.
#[inline]
pub fn known<T: Known>(value: bool) -> T {
    T::known(value)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    And,
    Or,
}

/// The evaluated left operand of `&&` or `||`. The right operand is evaluated only if it matters.
pub struct Logic<A> {
    left: A,
    operator: Operator,
    runs_right: bool,
    /// The region of the right operand, and the left operand as a `bool[]`.
    traced: Option<(Open, Tensor)>,
}

/// Begins `&&` with its left operand.
#[track_caller]
#[inline]
pub fn and<A: Condition>(left: A) -> Logic<A> {
    Logic::new(left, Operator::And)
}

/// Begins `||` with its left operand.
#[track_caller]
#[inline]
pub fn or<A: Condition>(left: A) -> Logic<A> {
    Logic::new(left, Operator::Or)
}

impl<A: Condition> Logic<A> {
    #[track_caller]
    #[inline]
    fn new(left: A, operator: Operator) -> Self {
        match left.decision() {
            Decision::Known(way) => {
                Self { left, operator, runs_right: way == (operator == Operator::And), traced: None }
            }
            Decision::Traced(tracer, condition) => {
                let open = Open::new(tracer.clone(), Location::caller());
                tracer.open("right", false);
                Self { left, operator, runs_right: true, traced: Some((open, condition)) }
            }
        }
    }
}

impl<A> Logic<A> {
    /// Records that the right operand uses a name through which something may be mutated.
    ///
    /// Reports [`Code::HandedOn`](ms_ir::Code::HandedOn) or
    /// [`Code::SharedChange`](ms_ir::Code::SharedChange) if the condition is a tensor.
    #[track_caller]
    #[inline]
    pub fn uses(&self, name: &str, reach: Reach) {
        if let Some((open, _)) = &self.traced {
            open.uses(name, reach);
        }
    }

    /// Returns whether the right operand is evaluated.
    #[inline]
    pub fn runs_right(&self) -> bool {
        self.runs_right
    }

    /// Returns the result. `right` is the right operand if it was evaluated.
    #[track_caller]
    #[inline]
    pub fn end<B>(self, right: Option<B>) -> A::Output
    where
        A: Combine<B>,
    {
        match (right, self.traced) {
            (Some(right), None) => A::right(right),
            (Some(right), Some((open, left))) => {
                A::traced(A::right(right), |right| combine(&open, &left, self.operator, right))
            }
            (None, _) => self.left.left(),
        }
    }
}

#[track_caller]
fn combine(open: &Open, left: &Tensor, operator: Operator, right: Tensor) -> Tensor {
    let tracer = &open.tracer;
    let Decision::Traced(_, right) = right.decision() else { unreachable!("the trace is under way") };
    let region = tracer.suspend();
    if left.is_poisoned() || right.is_poisoned() {
        return tracer.poisoned(right.ty());
    }
    let joined = match region.writes() {
        false => tracer.splice(region, &[right]).map(|it| match operator {
            Operator::And => ops::logical_and(left, &it[0]),
            Operator::Or => ops::logical_or(left, &it[0]),
        }),
        true => {
            tracer.open("known", false);
            let known = tracer.suspend();
            let (known, right) = ((known, &[Tensor::scalar(operator == Operator::Or)][..]), (region, &[right][..]));
            let arms = if operator == Operator::And { [right, known] } else { [known, right] };
            tracer.branch(left, arms, open.location).map(|mut it| it.remove(0))
        }
    };
    joined.unwrap_or_else(|error| {
        open.report(error);
        tracer.poisoned(left.ty())
    })
}
