//! Traces Rust calls to graphs: arguments and results of calls, and the tracer.

mod arg;
mod body;
mod callable;
mod cell;
mod differentiable;
mod hooks;
mod hyper_map;
mod input_spec;
mod logic;
mod paths;
mod region;
mod returns;
mod signature;
mod tracer;
mod tuples;
mod type_key;

pub use arg::{
    Arg, ArgumentNames, CellId, ComputeDType, Frozen, Name, PerParameter, Sink, Size, Sizes, Training, Tree, Visitor,
    leaves, visited,
};
pub use body::body_graph;
pub use callable::{Apply, ApplyAll, Callable, Given, HasCall, Invoke, Marked, Marks, Met, NoCall, Own, Unmet};
pub use cell::{Cell, Layer, convert, parameters};
pub use differentiable::{Differentiable, Gradients, Target, Wrt};
pub use hooks::{Hook, HookHandle, Hooks, generation, hooks_of, hooks_refused};
pub use hyper_map::{FromValue, HyperMap, Kind, Map, MultitypeFuncGraph, Number, Overload, Structure, Value};
pub use input_spec::InputSpec;
pub use logic::{Combine, Known, Logic, Truth, and, known, or, truth};
pub use ms_ops::ops::compare::{Case, Compare, Equals, Ordered, Subject, case, matched};
pub use paths::{cell_path, receiver};
pub use region::{
    Advances, AdvancesNothing, Any, AsksAny, AsksWrites, Assertion, Bound, Branch, Carry, Condition, Counting,
    Decision, Deferring, Either, Flow, For, GoesOn, HandsAny, HandsClone, HandsStill, HandsWrites, Held, HeldFlow,
    Host, Iterate, Numbers, OnTensor, Over, Probe, Range, Reach, Repeat, SecondArm, Vote, branch, cond, decide, flow,
    fori_loop, held, held_flow, holds, passing, range, repeat, scan, switch, vote, while_loop,
};
pub use returns::{Entered, JitReturn};
pub use signature::{Pooled, Signature};
pub use tracer::{
    BackwardSlots, Binding, GraphCall, Pattern, Region, Repeated, Suspended, Trace, Tracer, build, build_like,
    check_backward_slots, run_nested, run_traced, run_with_slots, sound,
};
pub use type_key::{TypeKey, type_key};

#[doc(hidden)]
pub use tuples::tuples_of;

use ms_ir::error::{Code, Error, Result};
use ms_ops::tensor::{Tensor, Type};

/// Checks that `value` may be written into a parameter of type `slot`.
///
/// # Errors
/// [`Code::Shape`] or [`Code::DType`] if its type differs from the slot's.
pub fn check_write(slot: &Type, value: &Tensor) -> Result<()> {
    let new = value.ty();
    if *slot == new || value.is_poisoned() {
        return Ok(());
    }
    let code = if slot.dtype == new.dtype { Code::Shape } else { Code::DType };
    Err(Error::new(code, format!("a parameter of {slot} cannot take {new}")).with_op("assign"))
}
