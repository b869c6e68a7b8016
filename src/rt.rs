//! Functions and traits that macro expansions use; not part of the public API.

pub use crate::statics::*;
pub use ms_core::session::{Differentiable, JitFn, Wrt, custom_vjp, jit, type_key};
pub use ms_core::tensor::{Element, Tensor};
pub use ms_core::trace::{
    Apply, Arg, Callable, Cell, Compare, Flow, Invoke, Iterate, Marked, Marks, Name, Over, Probe, Reach, Sink, Size,
    Sizes, Subject, Tree, alike, and, branch, case, decide, flow, held, held_flow, holds, known, matched, or, passing,
    repeat, truth, vote,
};

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
    note = "MS053: derive `Tree` for it; a cell is passed as `&`: its parameters are written through shared references"
)]
pub trait Mutable: Tree {}

#[diagnostic::do_not_recommend]
impl<T: Tree> Mutable for T {}

/// Visits an argument behind `&mut` for the signature.
pub fn visit_mutable<T: Mutable>(argument: &T, sink: &mut Sink<'_>) {
    argument.visit(sink);
}

/// A value that one arm of a branch moves while the other arm needs it too.
#[diagnostic::on_unimplemented(
    message = "MS021: `{Self}` is moved in two arms of a decision that its type may turn into one on a tensor",
    label = "moved here, and used in the other arm",
    note = "derive `Clone` for it, or take it out of the `if`"
)]
pub trait Copied: Clone {}

#[diagnostic::do_not_recommend]
impl<T: Clone> Copied for T {}

/// A copy for one of two arms.
#[inline]
pub fn copy<T: Copied>(value: &T) -> T {
    value.clone()
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
