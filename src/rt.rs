//! Functions and traits that macro expansions use; not part of the public API.

pub use crate::statics::*;
pub use ms_core::error::Result;
pub use ms_core::session::{Differentiable, JitFn, JitReturn, ReplaceTensors, Wrt, custom_vjp, jit, type_key};
pub use ms_core::tensor::{Element, Tensor};
pub use ms_core::trace::{
    Apply, ApplyAll, Arg, Callable, Carry, Cell, Compare, Deferring, Flow, Given, Invoke, Iterate, Marked, Marks, Name,
    Over, Own, Probe, Reach, SecondArm, Sink, Size, Sizes, Subject, Tree, and, branch, case, decide, flow, held,
    held_flow, holds, known, matched, or, passing, repeat, truth, vote,
};

use ms_core::trace::{HasCall, Met, Unmet};

/// Re-exports that expansions of `custom_op!` refer to.
pub mod custom {
    pub use inventory;
    pub use ms_core::error::Result;
    pub use ms_core::ops::custom::*;
    pub use ms_core::ops::{Batching, Derivative, Types};
    pub use ms_core::tensor::{AsTensor, AttrInfo, Attrs, Type};
}

/// Re-exports that expansions of `kernel!` refer to.
pub mod kernel {
    pub use ms_core::ops::IntoOperand;
    pub use ms_core::ops::custom::kernel::*;
}

/// Type probes: traits that decide what can be mutated through a name.
pub mod reach {
    pub use ms_core::trace::{
        Advances as _, AdvancesNothing as _, AsksAny as _, AsksWrites as _, HandsAny as _, HandsClone as _,
        HandsStill as _, HandsWrites as _,
    };
}

/// Accepts a closure that coerces to a function because it captures nothing. For any other closure, rustc names the
/// captured variable.
#[inline]
pub fn uncaptured<F, P>(closure: F, _: impl FnOnce(F) -> P) -> F {
    closure
}

/// Runs a body in a closure, so that `return` leaves the body and not the enclosing function.
#[track_caller]
#[inline]
pub fn body<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Converts a `#[dynamic]` argument to a tensor of rank 0 with the argument's dtype.
pub fn dynamic<T: Element>(value: T) -> Tensor {
    Tensor::from_slice([0usize; 0], &[value])
}

/// A type that can be passed as `&mut`: the argument is both an input and an output.
#[diagnostic::on_unimplemented(
    message = "`&mut {Self}` cannot be an argument of a compiled function",
    label = "not a structure of tensors",
    note = "derive `Tree` for it; a cell is passed as `&`: its parameters are written through shared references; for more \
            information, run `ms explain MS053`"
)]
pub trait Mutable<By>: Sized {
    /// `Self`, or nothing for a type that is no pytree; rustc then does not report its uses.
    type Own: Tree;

    /// Returns the functions that read and write the argument.
    fn own(&self) -> Access<Self, Self::Own>;
}

/// Functions that read and write an argument behind `&mut`.
pub struct Access<T, Own> {
    /// Borrows the argument as a pytree.
    pub get: fn(&T) -> &Own,
    /// Converts a new pytree back to the argument's type.
    pub back: fn(Own) -> T,
    /// Replaces the tensors of the argument.
    pub replace: Replace<T>,
}

/// Replaces each tensor of a pytree by the result of a function.
pub type Replace<T> = fn(&mut T, &mut dyn FnMut(&Tensor) -> Tensor);

impl<T: Tree> Access<T, T> {
    const OWN: Self = Self { get: |it| it, back: std::convert::identity, replace: |it, next| *it = it.rebuild(next) };
}

#[diagnostic::do_not_recommend]
impl<T: Tree> Mutable<Met> for T {
    type Own = T;

    #[inline]
    fn own(&self) -> Access<T, T> {
        Access::OWN
    }
}

// A second impl keeps `Own` undetermined: with a single one, rustc would assume `Own = T`.
#[diagnostic::do_not_recommend]
impl<T: Tree + HasCall> Mutable<Unmet> for T {
    type Own = T;

    fn own(&self) -> Access<T, T> {
        Access::OWN
    }
}

/// A value that one arm of a branch moves while the other arm still uses it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is moved in two arms of a decision that its type may turn into one on a tensor",
    label = "moved here, and used in the other arm",
    note = "derive `Clone` for it, or take it out of the `if`; for more information, run `ms explain MS021`"
)]
pub trait Copied: Sized {
    /// Clones the value for one of the two arms.
    fn copy(value: &Self) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Clone> Copied for T {
    #[inline]
    fn copy(value: &Self) -> Self {
        value.clone()
    }
}

/// Takes back donated arguments when the body has to run.
#[inline]
pub fn take_donated<T>(given: Option<T>) -> T {
    given.expect("a call without a version leaves its arguments")
}

/// Unwraps the value of a branch in which no arm jumps.
#[inline]
pub fn branch_value<T>(value: Option<T>) -> T {
    value.expect("an arm that does not leave has a value")
}
