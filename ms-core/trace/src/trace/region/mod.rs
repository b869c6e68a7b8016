//! Implements regions: the functions that annotated code calls at the borders of `if`, `while` and `for`. With them the
//! same body runs as plain Rust on host values, and is traced on tensors.

mod bounds;
mod branch;
mod carry;
mod flow;
mod functional;
mod kind;
mod range;
mod reach;
mod repeat;

pub use bounds::Bound;
pub use branch::{Branch, branch};
pub use carry::{Carry, Held, SecondArm, held, passing};
pub use flow::{Any, Either, Flow, GoesOn, HeldFlow, Vote, flow, held_flow, vote};
pub(crate) use functional::scan_carries;
pub use functional::{cond, fori_loop, scan, switch, while_loop};
pub use kind::{Assertion, Condition, Decision, Deferring, Host, OnTensor, decide, holds};
pub use range::{Counting, For, Iterate, Numbers, Over, Range, range};
pub use reach::{
    Advances, AdvancesNothing, AsksAny, AsksWrites, HandsAny, HandsClone, HandsStill, HandsWrites, Probe, Reach,
};
pub use repeat::{Repeat, repeat};

use super::tracer::Tracer;
use carry::Leaves;
use ms_ir::error::{Code, Error};
use ms_ops::ops::{self, distinct};
use ms_ops::tensor::{DispatchMode, Tensor, dispatch_mode};
use std::cell::Cell;
use std::panic::Location;
use std::rc::Rc;

/// A region of a trace under construction. If it is dropped before its end, it abandons the graphs that it opened.
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

    /// Returns the leaves of a value at a border of the region. Reports tensors that leaked out of another region.
    fn leaves<K: Carry<S>, S>(&self, name: &str, value: &S) -> Leaves {
        let mut leaves = Leaves::of::<K, _>(value);
        self.tracer.check_leaks(&mut leaves.tensors, name, self.location);
        leaves
    }

    /// Records that the region uses a name through which something is mutated.
    #[track_caller]
    pub(super) fn uses(&self, name: &str, reach: Reach) {
        if let Some(error) = reach.refusal(name) {
            self.tracer.report_once(error.at(Location::caller()));
        }
    }
}

thread_local! {
    /// The trace and depth at which a region was left incomplete.
    static LEFT: Cell<(u64, usize)> = const { Cell::new((0, 0)) };
}

impl Drop for Open {
    fn drop(&mut self) {
        let depth = self.tracer.depth();
        if depth > self.depth && !std::thread::panicking() {
            // A jump leaves regions from the inside out, and the innermost one reports it. If an error of the user
            // leaves the whole call, that is the result, and this report is dropped.
            if LEFT.replace((self.tracer.id(), self.depth)) != (self.tracer.id(), depth) {
                let message = "a decision on a tensor is left by a jump that its graph does not see";
                let help = "write the `break`, `continue` or `return` itself instead of a macro or `?` that hides it, \
                            or decide on a host value";
                self.report(Error::new(Code::LeftOpen, message).help(help));
            }
        }
        self.tracer.unwind(self.depth);
    }
}

/// Gives the tensors in a variable new identities if a tape is recording. As in a graph, a value after the border of a
/// region then differs from the one before it. So gradients are added in the same order.
pub(super) fn set_distinct<K: Carry<S>, S>(variable: &mut S) {
    if K::ON_TENSOR && dispatch_mode() == DispatchMode::Tape {
        K::put(variable, &mut |it| match it.dtype().is_float() {
            true => distinct(it),
            false => it.clone(),
        });
    }
}

/// Returns a placeholder for a value that does not exist.
pub(super) fn blank(tracer: &Tracer, like: &Tensor) -> Tensor {
    if like.is_poisoned() { tracer.poisoned(like.ty()) } else { ops::zeros_like(like) }
}
