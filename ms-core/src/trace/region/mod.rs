//! Regions: what annotated code calls at the borders of `if`, `while` and `for`, so that one text
//! of a body runs as it stands on host values, and is traced both ways on tensors.

mod branch;
mod carry;
mod flow;
mod functional;
mod kind;
mod range;
mod repeat;

pub use branch::{Branch, branch};
pub use carry::{Carry, Held, held, passing};
pub use flow::{Any, Either, Flow, GoesOn, HeldFlow, Vote, flow, held_flow, vote};
pub use functional::{cond, fori_loop, scan, switch, while_loop};
pub use kind::{Assertion, Condition, Decision, Deferring, Device, Host, decide, holds};
pub use range::{Bound, Counting, For, Iterate, Numbers, Over, Range, range};
pub use repeat::{Repeat, repeat};

use super::tracer::Tracer;
use crate::error::Error;
use crate::ops;
use crate::tensor::Tensor;
use std::panic::Location;
use std::rc::Rc;

/// A region of a trace that is under construction; dropped before its end, it leaves what it
/// opened.
pub(super) struct Open {
    pub(super) tracer: Rc<Tracer>,
    depth: usize,
    pub(super) location: &'static Location<'static>,
}

impl Open {
    pub(super) fn new(tracer: Rc<Tracer>, location: &'static Location<'static>) -> Self {
        let depth = tracer.depth();
        Self { tracer, depth, location }
    }

    pub(super) fn report(&self, error: Error) {
        self.tracer.report(error.at(self.location));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.tracer.unwind(self.depth);
    }
}

pub(super) fn is_poisoned(tensor: &Tensor) -> bool {
    tensor.as_traced().is_some_and(|it| it.poisoned)
}

/// A value that stands where there is none.
pub(super) fn blank(tracer: &Tracer, like: &Tensor) -> Tensor {
    if is_poisoned(like) { tracer.poisoned(like.ty()) } else { ops::zeros_like(like) }
}
