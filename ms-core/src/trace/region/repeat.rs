//! `while`: a loop on a tensor is traced once, with inputs that stand for what changes inside; a
//! loop on host values is Rust's own.
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

use super::carry::{Carry, Held, Leaves};
use super::kind::{Condition, Decision, Kind};
use super::range::{Bounds, Counter};
use super::{Open, is_poisoned};
use crate::error::{Code, Error};
use crate::tensor::{DispatchMode, Tensor, dispatch_mode};
use crate::trace::tracer::{Repeated, Suspended, Tracer};
use std::marker::PhantomData;
use std::panic::Location;

/// A `while` or a `for` over a [`Range`](super::Range).
pub struct Repeat<K> {
    kind: PhantomData<K>,
    traced: Option<Box<Traced>>,
}

/// Where a traced loop stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the condition.
    Condition,
    /// Behind the condition.
    Body,
    /// Behind the body.
    End,
    /// After the loop.
    After,
}

struct Traced {
    open: Open,
    phase: Phase,
    condition: Option<(Suspended, Tensor)>,
    counter: Option<Counter>,
    states: Vec<State>,
}

/// A tensor that may change inside.
struct State {
    before: Tensor,
    /// What stands for it in the condition and in the body.
    params: [Option<Tensor>; 2],
    after: Option<Tensor>,
    result: Option<Tensor>,
}

/// A loop whose condition is still to come.
#[inline]
pub fn repeat<K: Kind>() -> Repeat<K> {
    Repeat { kind: PhantomData, traced: None }
}

impl<K: Kind> Repeat<K> {
    /// The loop begins, or an iteration ends.
    #[track_caller]
    #[inline]
    pub fn head(&mut self) {
        if K::DEVICE && dispatch_mode() == DispatchMode::Trace {
            let location = Location::caller();
            match &mut self.traced {
                Some(it) => it.phase = Phase::End,
                None => self.traced = Tracer::current().map(|it| Traced::new(Open::new(it, location), "condition")),
            }
        }
    }

    /// The same for a loop that counts.
    #[track_caller]
    pub(super) fn head_of(&mut self, bounds: &Bounds) {
        self.head();
        if let Some(it) = &mut self.traced
            && it.phase == Phase::Condition
        {
            it.count(bounds);
        }
    }

    /// What the counter is in the body; nothing where the loop runs as it stands.
    pub(super) fn counter(&self) -> Option<Tensor> {
        self.traced.as_ref()?.counter.as_ref().map(|it| it.now.clone())
    }

    /// Whether the loop is traced to its end.
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

    /// Whether the body runs.
    #[track_caller]
    #[inline]
    pub fn test<C: Condition<Kind = K>>(&mut self, condition: C) -> bool {
        match (condition.decision(), &mut self.traced) {
            (Decision::Known(way), _) => way,
            (Decision::Traced(tracer, condition), Some(it)) => {
                it.condition = Some((tracer.suspend(), condition));
                tracer.open("body", true);
                it.phase = Phase::Body;
                true
            }
            (Decision::Traced(..), None) => unreachable!("`head` saw the same dispatcher"),
        }
    }

    /// A variable at the borders of the loop.
    pub fn carry<S: Carry<K>>(&mut self, held: &mut Held<S>, variable: &mut S) {
        let Some(it) = &mut self.traced else { return };
        match it.phase {
            Phase::Condition => it.enter(held, variable),
            Phase::Body => it.restart(held, variable),
            Phase::End => it.compare(held, variable),
            Phase::After => it.give(held, variable),
        }
    }
}

impl Traced {
    fn new(open: Open, name: &str) -> Box<Self> {
        open.tracer.open(name, true);
        Box::new(Self { open, phase: Phase::Condition, condition: None, counter: None, states: Vec::new() })
    }

    /// The first variable of the loop is a counter.
    fn count(&mut self, bounds: &Bounds) {
        let now = self.declare(&bounds.start, 1);
        self.counter = Some(Counter { bounds: bounds.clone(), now });
    }

    /// Adds a tensor, and gives what stands for it here.
    fn declare(&mut self, before: &Tensor, region: usize) -> Tensor {
        let param = self.open.tracer.input(before.ty());
        let mut params = [None, None];
        params[region] = Some(param.clone());
        self.states.push(State { before: before.clone(), params, after: None, result: None });
        param
    }

    fn enter<K, S: Carry<K>>(&mut self, held: &mut Held<S>, variable: &mut S) {
        held.at = self.states.len();
        held.leaves = Leaves::of(variable);
        let region = if self.counter.is_some() { 1 } else { 0 };
        variable.put(&mut |it| self.declare(it, region));
        held.before = S::copy(variable);
    }

    /// What the condition sees, the body sees as well, as inputs of its own.
    fn restart<K, S: Carry<K>>(&mut self, held: &mut Held<S>, variable: &mut S) {
        let leaves = Leaves::of(variable);
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
            *variable = before.copy().expect("it was copied before");
        }
        let mut at = held.at;
        let (states, tracer) = (&mut self.states, &self.open.tracer);
        variable.put(&mut |_| {
            let state = &mut states[at];
            at += 1;
            state.params[1].insert(tracer.input(state.before.ty())).clone()
        });
    }

    fn compare<K, S: Carry<K>>(&mut self, held: &mut Held<S>, variable: &S) {
        let leaves = Leaves::of(variable);
        if !leaves.fits(&held.leaves) {
            held.refused = true;
            return self.open.report(held.mismatch("after an iteration than before it"));
        }
        for (i, after) in leaves.tensors.into_iter().enumerate() {
            let state = &mut self.states[held.at + i];
            if state.before.ty() == after.ty() || is_poisoned(&after) || is_poisoned(&state.before) {
                state.after = Some(after);
            } else {
                let error = held.retyped(i, [&state.before, &after], "before an iteration, but after it");
                self.open.report(error);
            }
        }
    }

    fn end(&mut self) {
        self.phase = Phase::After;
        let location = self.open.location;
        let tracer = self.open.tracer.clone();
        if let Some(counter) = &self.counter {
            self.states[0].after = Some(counter.next());
        }
        let body = tracer.suspend();
        let lost = |it: &State| it.after.as_ref().is_none_or(is_poisoned) || is_poisoned(&it.before);
        let refused = self.states.iter().any(lost) || self.condition.as_ref().is_some_and(|it| is_poisoned(&it.1));
        let repeated = match (self.condition.take(), &self.counter) {
            (Some((condition, holds)), _) => Repeated::While(condition, holds),
            (None, Some(counter)) => match counter.bounds.count() {
                Some(count) => Repeated::times(count),
                None => {
                    tracer.open("condition", true);
                    let params: Vec<Tensor> = self.states.iter().map(|it| tracer.input(it.before.ty())).collect();
                    let holds = counter.bounds.holds(&params[0]);
                    Repeated::While(tracer.suspend(), holds)
                }
            },
            (None, None) => unreachable!("a loop has a condition or counts"),
        };
        let all = |of: &dyn Fn(&State) -> Tensor| -> Vec<Tensor> { self.states.iter().map(of).collect() };
        let before = all(&|it| it.before.clone());
        let results = if refused {
            before.iter().map(|it| tracer.poisoned(it.ty())).collect()
        } else {
            let params = all(&|it| it.params[1].clone().expect("the body has an input for each"));
            let after = all(&|it| it.after.clone().expect("checked above"));
            tracer.repeat(repeated, body, [&before, &params, &after], location).unwrap_or_else(|error| {
                self.open.report(error);
                before.iter().map(|it| tracer.poisoned(it.ty())).collect()
            })
        };
        self.states.iter_mut().zip(results).for_each(|(state, result)| state.result = Some(result));
    }

    fn give<K, S: Carry<K>>(&self, held: &Held<S>, variable: &mut S) {
        let mut states = self.states[held.at..].iter();
        variable.put(&mut |tensor| match states.next().and_then(|it| it.result.clone()) {
            Some(result) if !held.refused => result,
            _ => self.open.tracer.poisoned(tensor.ty()),
        });
    }
}
