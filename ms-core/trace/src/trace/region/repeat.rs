//! Implements `while`. A loop on a tensor is traced once, with inputs for the state that changes inside. A loop on host
//! values is Rust's own.
//!
//! ```text
//! let mut region = repeat();             let mut x0 = held("`x`");
//! loop {
//!     region.head();
//!     region.carry(&mut x0, &mut x);     first: it becomes an input; then: its end is compared
//!     if region.is_over() {
//!         region.carry(&mut x0, &mut x); it becomes what it is after the loop
//!         break;
//!     }
//!     if !region.test(c) { break }       host: c; traced: the condition ends
//!     region.carry(&mut x0, &mut x);     it becomes an input of the body
//!     { the body }
//! }
//! ```

use super::bounds::{Bounds, Counter};
use super::carry::{Carry, Held, Leaves};
use super::flow::{Flow, HeldFlow, Rounds, Vote};
use super::kind::{Condition, Decision, Kind, OnTensor};
use super::reach::Reach;
use super::{Open, blank, set_distinct};
use crate::trace::tracer::{Repeated, Suspended, Tracer};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error};
use ms_ops::ops;
use ms_ops::tensor::{DispatchMode, Tensor, dispatch_mode};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// A `while` or a `for` over a [`Range`](super::Range).
pub struct Repeat<K> {
    kind: PhantomData<K>,
    traced: Option<Box<Traced>>,
    /// The number of iterations of a host loop, as far as known.
    pub(super) rounds: Rounds,
}

/// The phase of a traced loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the condition.
    Condition,
    /// After the condition.
    Body,
    /// After the body.
    End,
    /// After the loop.
    After,
}

struct Traced {
    open: Open,
    phase: Phase,
    condition: Option<(Suspended, Tensor)>,
    counter: Option<Counter>,
    /// The index of the flag that the loop has been left.
    left: Option<usize>,
    states: Vec<State>,
}

/// A tensor that may change inside.
struct State {
    /// The value before the loop; `None` if it exists only after an iteration.
    before: Option<Tensor>,
    /// The path, from the variable on.
    name: Option<Arc<str>>,
    /// The inputs for it in the condition and in the body.
    params: [Option<Tensor>; 2],
    after: Option<Tensor>,
    result: Option<Tensor>,
}

impl State {
    fn first(&self, tracer: &Tracer) -> Tensor {
        match (&self.before, &self.after) {
            (Some(before), _) => before.adopted(),
            (None, after) => blank(tracer, after.as_ref().expect("a value is there after an iteration")),
        }
    }
}

/// Creates a loop before its condition.
#[inline]
pub fn repeat<K: Kind>() -> Repeat<K> {
    Repeat { kind: PhantomData, traced: None, rounds: Rounds::Open }
}

impl<K> Repeat<K> {
    /// Returns whether the loop is being traced.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.traced.is_some()
    }
}

impl<K: Kind, R> Flow<K, R> {
    /// Begins an iteration.
    ///
    /// Raises [`Code::HostLoop`] for a host loop that only a tensor terminates.
    #[track_caller]
    #[inline]
    pub fn begin<L>(&mut self, region: &Repeat<L>) {
        self.begin_iteration(region.is_traced(), region.rounds);
    }

    /// Checks a loop head that advances a variable used after the loop.
    ///
    /// Reports [`Code::HostChange`] if a tensor may have left a host loop by then: the variable would advance whatever
    /// the value of the tensor.
    #[track_caller]
    #[inline]
    pub fn advances<L>(&self, region: &Repeat<L>, name: &str, does: bool) {
        if does && !region.is_traced() {
            self.advances_on_host(name);
        }
    }
}

impl<K: Kind> Repeat<K> {
    /// Begins the loop, or ends an iteration.
    #[track_caller]
    #[inline]
    pub fn head(&mut self) {
        self.start("condition");
    }

    #[track_caller]
    #[inline]
    fn start(&mut self, name: &str) {
        if K::ON_TENSOR && dispatch_mode() == DispatchMode::Trace {
            let location = Location::caller();
            match &mut self.traced {
                Some(it) => it.phase = Phase::End,
                None => self.traced = Tracer::current().map(|it| Traced::new(Open::new(it, location), name)),
            }
        }
    }

    /// Begins a counted loop, or ends an iteration of it.
    #[track_caller]
    pub(super) fn head_of(&mut self, bounds: &Bounds) {
        self.start("body");
        if let Some(it) = &mut self.traced
            && it.phase == Phase::Condition
        {
            it.count(bounds);
        }
    }

    /// Returns the counter in the body; `None` if the loop is plain Rust.
    pub(super) fn counter(&self) -> Option<Tensor> {
        self.traced.as_ref()?.counter.as_ref().map(|it| it.now.clone())
    }

    /// Returns whether tracing of the loop is complete.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        match &mut self.traced {
            Some(it) if it.phase == Phase::End => {
                it.end();
                true
            }
            _ => false,
        }
    }

    /// Returns whether the body runs.
    #[track_caller]
    #[inline]
    pub fn test<C: Condition<Kind = K>>(&mut self, condition: C) -> bool {
        match condition.decision() {
            Decision::Known(way) => way,
            Decision::Traced(_, condition) => self.test_traced(condition),
        }
    }

    fn test_traced(&mut self, condition: Tensor) -> bool {
        let it = self.traced.as_mut().expect("`head` saw the same dispatcher");
        it.condition = Some((it.open.tracer.suspend(), condition));
        it.open.tracer.open("body", true);
        it.phase = Phase::Body;
        true
    }

    /// Determines the kind of the loops that jumps inside leave.
    #[inline]
    pub fn votes(&self, _: Vote<K>) {}

    /// Returns the kind of the region.
    #[inline]
    pub fn kind(&self) -> PhantomData<K> {
        PhantomData
    }

    /// Returns whether the body runs. The loop also ends when it has been left.
    #[track_caller]
    #[inline]
    pub fn test_unless<C: Condition<Kind = K>, L: Kind, R>(&mut self, condition: C, flow: &Flow<L, R>) -> bool {
        match (condition.decision(), flow.repeats().decision()) {
            (Decision::Known(way), _) if self.traced.is_none() => way,
            (Decision::Traced(_, condition), Decision::Traced(_, repeats)) => {
                self.test_traced(ops::logical_and(condition, repeats))
            }
            (Decision::Traced(_, condition), _) | (_, Decision::Traced(_, condition)) => self.test_traced(condition),
            (Decision::Known(way), Decision::Known(repeats)) => way && repeats,
        }
    }

    /// Carries an exit like [`Repeat::carry`]. `own` marks the exit of the loop itself.
    pub fn carry_flow<L, R>(&mut self, held: &mut HeldFlow<R>, flow: &mut Flow<L, R>, own: bool)
    where
        K: Carry<R>,
    {
        let Some(it) = &mut self.traced else { return };
        let (flags, value) = flow.parts();
        match it.phase {
            Phase::Condition => {
                if own {
                    it.left = Some(it.states.len());
                }
                it.enter::<OnTensor, _>(&mut held.flags, flags);
                held.value.given = value.is_some();
                if let Some(value) = value {
                    it.enter::<K, _>(&mut held.value, value);
                }
            }
            Phase::Body => {
                it.restart::<OnTensor, _>(&mut held.flags, flags);
                if let Some(value) = value {
                    it.restart::<K, _>(&mut held.value, value);
                }
            }
            Phase::End => {
                it.compare::<OnTensor, _>(&mut held.flags, flags);
                match value {
                    Some(value) if held.value.given => it.compare::<K, _>(&mut held.value, value),
                    Some(value) => it.begin_late::<K, _>(&mut held.value, value),
                    None => {}
                }
            }
            Phase::After => {
                it.give::<OnTensor, _>(&held.flags, flags);
                if let Some(value) = value {
                    it.give::<K, _>(&held.value, value);
                }
            }
        }
    }

    /// Records that the region uses a name through which something may be mutated.
    ///
    /// Reports [`Code::HandedOn`](ms_ir::Code::HandedOn) or
    /// [`Code::SharedChange`](ms_ir::Code::SharedChange) if the condition is a tensor.
    #[track_caller]
    #[inline]
    pub fn uses(&self, name: &str, reach: Reach) {
        if let Some(it) = &self.traced {
            it.open.uses(name, reach);
        }
    }

    /// Carries a variable at the borders of the loop.
    pub fn carry<S>(&mut self, held: &mut Held<S>, variable: &mut S)
    where
        K: Carry<S>,
    {
        let Some(it) = &mut self.traced else { return set_distinct::<K, S>(variable) };
        match it.phase {
            Phase::Condition => it.enter::<K, _>(held, variable),
            Phase::Body => it.restart::<K, _>(held, variable),
            Phase::End => it.compare::<K, _>(held, variable),
            Phase::After => it.give::<K, _>(held, variable),
        }
    }
}

impl Traced {
    fn new(open: Open, name: &str) -> Box<Self> {
        open.tracer.open(name, true);
        Box::new(Self { open, phase: Phase::Condition, condition: None, counter: None, left: None, states: Vec::new() })
    }

    /// Adds a counter as the first variable of the loop.
    fn count(&mut self, bounds: &Bounds) {
        self.open.tracer.check_leaks(&mut bounds.tensors(), "the range", self.open.location);
        let now = self.declare(&bounds.start, 1, None);
        self.counter = Some(Counter { bounds: bounds.clone(), now });
    }

    /// Adds a tensor and returns the input for it.
    fn declare(&mut self, before: &Tensor, region: usize, name: Option<Arc<str>>) -> Tensor {
        let param = self.open.tracer.named_input(before.ty(), name.clone());
        let mut params = [None, None];
        params[region] = Some(param.clone());
        self.states.push(State { before: Some(before.clone()), name, params, after: None, result: None });
        param
    }

    fn enter<K: Carry<S>, S>(&mut self, held: &mut Held<S>, variable: &mut S) {
        held.at = self.states.len();
        held.leaves = self.open.leaves::<K, _>(held.name, variable);
        let region = if self.counter.is_some() { 1 } else { 0 };
        let mut paths = (0..held.leaves.tensors.len()).map(|leaf| held.path(leaf));
        K::put(variable, &mut |it| self.declare(it, region, paths.next().flatten().map(Into::into)));
        held.before = K::copy(variable);
    }

    /// Makes the variables of the condition inputs of the body as well.
    fn restart<K: Carry<S>, S>(&mut self, held: &mut Held<S>, variable: &mut S) {
        let leaves = Leaves::of::<K, _>(variable);
        let states = &self.states[held.at..];
        let is_same = |(now, state): (&Tensor, &State)| {
            state.params[0].as_ref().is_some_and(|it| self.open.tracer.is_same(it, now))
        };
        if !leaves.fits(&held.leaves) || !leaves.tensors.iter().zip(states).all(is_same) {
            self.open.report(
                Error::new(
                    Code::TypeChange,
                    format!("{} changes in the condition of a `while` on a tensor", held.name),
                )
                .help("compute the condition before the loop and at the end of its body"),
            );
        }
        if let Some(before) = &held.before {
            *variable = K::copy(before).expect("it was copied before");
        }
        let mut at = held.at;
        let (states, tracer) = (&mut self.states, &self.open.tracer);
        K::put(variable, &mut |_| {
            let state = &mut states[at];
            at += 1;
            let before = state.before.as_ref().expect("it was there before the condition");
            state.params[1].insert(tracer.named_input(before.ty(), state.name.clone())).clone()
        });
    }

    fn compare<K: Carry<S>, S>(&mut self, held: &mut Held<S>, variable: &S) {
        let leaves = self.open.leaves::<K, _>(held.name, variable);
        if !leaves.fits(&held.leaves) {
            held.refused = true;
            return self.open.report(held.mismatch("after an iteration than before it"));
        }
        for (i, after) in leaves.tensors.into_iter().enumerate() {
            let state = &mut self.states[held.at + i];
            let before = state.before.as_ref().expect("it was there before the loop");
            if before.ty() == after.ty() || after.is_poisoned() || before.is_poisoned() {
                state.after = Some(after);
            } else {
                let error = held.retyped(i, [before, &after], "before an iteration, but after it");
                self.open.report(error);
            }
        }
    }

    /// Adds a value that exists only after an iteration.
    fn begin_late<K: Carry<S>, S>(&mut self, held: &mut Held<S>, value: &S) {
        held.at = self.states.len();
        held.leaves = self.open.leaves::<K, _>(held.name, value);
        let late = |it: &Tensor| State {
            before: None,
            name: None,
            params: [None, None],
            after: Some(it.clone()),
            result: None,
        };
        self.states.extend(held.leaves.tensors.iter().map(late));
    }

    /// Returns whether an iteration may leave the loop.
    fn may_be_left(&self) -> bool {
        self.left.is_some_and(|at| match (&self.states[at].params[1], &self.states[at].after) {
            (Some(param), Some(after)) => !self.open.tracer.is_same(param, after),
            _ => true,
        })
    }

    fn end(&mut self) {
        self.phase = Phase::After;
        let tracer = self.open.tracer.clone();
        if let Some(counter) = &self.counter {
            self.states[0].after = Some(counter.next());
        }
        let body = tracer.suspend();
        let before: Vec<Tensor> = self.states.map_vec(|it| it.first(&tracer));
        let results = if self.is_refused() {
            Err(None)
        } else {
            let repeated = match self.condition.take() {
                Some((condition, holds)) => {
                    Repeated::While { condition, holds, left: self.left.filter(|_| self.may_be_left()) }
                }
                None => self.counted(&before),
            };
            let params: Vec<Option<Tensor>> = self.states.map_vec(|it| it.params[1].clone());
            let after: Vec<Tensor> = self.states.map_vec(|it| it.after.clone().expect("nothing is refused"));
            tracer.repeat(repeated, body, [&before, &after], &params, self.open.location).map_err(Some)
        };
        let results = results.unwrap_or_else(|error| {
            error.into_iter().for_each(|it| self.open.report(it));
            before.map_vec(|it| tracer.poisoned(it.ty()))
        });
        self.states.iter_mut().zip(results).for_each(|(state, result)| state.result = Some(result));
    }

    fn is_refused(&self) -> bool {
        let is_lost = |it: &State| {
            it.after.as_ref().is_none_or(Tensor::is_poisoned) || it.before.as_ref().is_some_and(Tensor::is_poisoned)
        };
        self.states.iter().any(is_lost) || self.condition.as_ref().is_some_and(|it| it.1.is_poisoned())
    }

    /// Returns the number of iterations of a counted loop.
    fn counted(&self, before: &[Tensor]) -> Repeated {
        let counter = self.counter.as_ref().expect("a loop has a condition or counts");
        match counter.bounds.count() {
            Some(count) if !self.may_be_left() => Repeated::times(count),
            _ => {
                let tracer = &self.open.tracer;
                tracer.open("condition", true);
                let stand_in = |(it, state): (&Tensor, &State)| tracer.named_input(it.ty(), state.name.clone());
                let params: Vec<Tensor> = before.iter().zip(&self.states).map(stand_in).collect();
                let mut holds = counter.bounds.holds(&params[0]);
                if let Some(left) = self.left.filter(|_| self.may_be_left()) {
                    holds = ops::logical_and(holds, ops::logical_not(&params[left]));
                }
                Repeated::While { condition: tracer.suspend(), holds, left: None }
            }
        }
    }

    fn give<K: Carry<S>, S>(&self, held: &Held<S>, variable: &mut S) {
        let mut states = self.states[held.at..].iter();
        K::put(variable, &mut |tensor| match states.next().and_then(|it| it.result.clone()) {
            Some(result) if !held.refused => result,
            _ => self.open.tracer.poisoned(tensor.ty()),
        });
    }
}
