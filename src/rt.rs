//! Functions and traits that macro expansions use; not part of the public API.

pub use crate::statics::*;
pub use ms_core::session::{Differentiable, JitFn, JitReturn, Place, Wrt, custom_vjp, jit, type_key};
pub use ms_core::tensor::{Element, Tensor};
pub use ms_core::trace::{
    Alike, Apply, ApplyAll, Arg, Callable, Carry, Cell, Compare, Deferring, Flow, Given, Invoke, Iterate, Marked,
    Marks, Name, Over, Own, Probe, Reach, Sink, Size, Sizes, Subject, Tree, and, branch, case, decide, flow, held,
    held_flow, holds, known, matched, or, passing, repeat, truth, vote,
};

use ms_core::trace::{HasCall, Met, Unmet};

/// What declarations of custom ops refer to.
pub mod custom {
    pub use inventory;
    pub use ms_core::error::Result;
    pub use ms_core::ops::custom::*;
    pub use ms_core::ops::{Batching, Derivative, Types};
    pub use ms_core::tensor::{AsTensor, AttrInfo, Attrs, Type};
}

/// What declarations of kernels refer to.
pub mod kernel {
    pub use ms_core::ops::IntoOperand;
    pub use ms_core::ops::custom::kernel::*;
}

/// The traits of type probes: what can be mutated through a name.
pub mod reach {
    pub use ms_core::trace::{
        Advances as _, AdvancesNothing as _, AsksAny as _, AsksWrites as _, HandsAny as _, HandsClone as _,
        HandsStill as _, HandsWrites as _,
    };
}

/// A closure that coerces to a function, since it captures nothing; where it does not, rustc names what it captures.
#[inline]
pub fn uncaptured<F, P>(closure: F, _: impl FnOnce(F) -> P) -> F {
    closure
}

/// Runs a body, so that `return` inside leaves the body and not the function around it.
#[track_caller]
#[inline]
pub fn body<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// A `#[dynamic]` argument: a tensor without dimensions, of the argument's own dtype.
pub fn dynamic<T: Element>(value: T) -> Tensor {
    Tensor::from_slice([0usize; 0], &[value])
}

/// An argument behind `&mut`, an input and an output.
#[diagnostic::on_unimplemented(
    message = "`&mut {Self}` cannot be an argument of a compiled function",
    label = "not a structure of tensors",
    note = "derive `Tree` for it; a cell is passed as `&`: its parameters are written through shared references; for more \
            information, run `ms explain MS053`"
)]
pub trait Mutable<By>: Sized {
    /// `Self`. For a type that is no structure of tensors there is none, and rustc is silent about uses of it.
    type Own: Tree;

    /// How the argument is read and written.
    fn own(&self) -> Access<Self, Self::Own>;
}

/// How an argument behind `&mut` is read and written.
pub struct Access<T, Own> {
    /// The structure of tensors.
    pub get: fn(&T) -> &Own,
    /// The argument of its new value.
    pub back: fn(Own) -> T,
    /// Replaces its tensors.
    pub replace: Replace<T>,
}

/// Replaces each tensor of a structure by the result of the function.
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

// With a single impl, rustc would go on with `Own = T`.
#[diagnostic::do_not_recommend]
impl<T: Tree + HasCall> Mutable<Unmet> for T {
    type Own = T;

    fn own(&self) -> Access<T, T> {
        Access::OWN
    }
}

/// A value that one arm of a branch moves while the other arm needs it too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is moved in two arms of a decision that its type may turn into one on a tensor",
    label = "moved here, and used in the other arm",
    note = "derive `Clone` for it, or take it out of the `if`; for more information, run `ms explain MS021`"
)]
pub trait Copied: Sized {
    /// A copy for one of two arms.
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
pub fn kept<T>(given: Option<T>) -> T {
    given.expect("a call without a version leaves its arguments")
}

/// The value of a branch none of whose arms jumps.
#[inline]
pub fn given<T>(value: Option<T>) -> T {
    value.expect("an arm that does not leave has a value")
}
