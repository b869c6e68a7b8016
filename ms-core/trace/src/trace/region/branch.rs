//! Implements `if`: traces both arms of a branch on a tensor, and runs one of them on a host value.
//!
//! ```text
//! let mut region = branch();              let mut x0 = held("`x`");
//! 'join: {
//!     if region.test(c) {                 host: c; traced: always
//!         region.save(&mut x0, &x);
//!         region.begin();
//!         { the first arm }
//!         region.carry(&mut x0, &mut x);  its end is kept, the beginning is back
//!         if region.is_decided() { break 'join }
//!         region.turn();
//!     }
//!     { the second arm }
//!     region.carry(&mut x0, &mut x);      its end is compared
//!     if region.is_decided() { break 'join }
//!     region.join();
//!     region.carry(&mut x0, &mut x);      it becomes the choice
//! }
//! ```

use super::carry::{Carry, Held, Leaves};
use super::flow::{self, Flow, HeldFlow, Vote};
use super::kind::{Condition, Decision, Kind, OnTensor};
use super::reach::Reach;
use super::{Open, blank, set_distinct};
use crate::trace::tracer::Suspended;
use ms_ir::MapVec;
use ms_ir::error::abandon;
use ms_ops::ops;
use ms_ops::tensor::Tensor;
use std::marker::PhantomData;
use std::panic::Location;

/// An `if` between its condition and its end.
pub struct Branch<K> {
    kind: PhantomData<K>,
    traced: Option<Box<Traced>>,
}

/// The phase of a traced `if`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    First,
    Second,
    Joined,
}

struct Traced {
    open: Open,
    condition: Tensor,
    phase: Phase,
    first: Option<Suspended>,
    /// Whether each arm leaves the enclosing loop.
    left: [bool; 2],
    /// Whether it guards code that a jump skips, rather than being the user's `if`.
    skips: bool,
    /// Whether the function ends after it.
    ends: bool,
    states: Vec<State>,
}

/// The tensors of a variable at the ends of the two arms, and the results.
#[derive(Default)]
struct State {
    ends: [Vec<Tensor>; 2],
    results: Vec<Tensor>,
}

/// Creates an `if` before its condition.
#[inline]
pub fn branch<K: Kind>() -> Branch<K> {
    Branch { kind: PhantomData, traced: None }
}

impl<K: Kind> Branch<K> {
    /// Returns whether the first arm runs.
    #[track_caller]
    #[inline]
    pub fn test<C: Condition<Kind = K>>(&mut self, condition: C) -> bool {
        match condition.decision() {
            Decision::Known(way) => way,
            Decision::Traced(tracer, condition) => {
                if let Some(it) = &mut self.traced {
                    it.condition = ops::logical_and(&it.condition, &condition);
                    return true;
                }
                let open = Open::new(tracer, Location::caller());
                let (phase, first, left, states) = (Phase::First, None, [false; 2], Vec::new());
                let traced = Traced { open, condition, phase, first, left, skips: C::SKIPS, ends: false, states };
                self.traced = Some(Box::new(traced));
                true
            }
        }
    }

    /// Begins the second arm of a condition with several parts. Only this arm runs if a pattern among the parts does
    /// not match.
    #[inline]
    pub fn other(&mut self) {
        if self.traced.as_ref().is_some_and(|it| it.phase == Phase::First) {
            self.traced = None;
        }
    }

    /// Returns the kind of the region.
    #[inline]
    pub fn kind(&self) -> PhantomData<K> {
        PhantomData
    }

    /// Saves the value of a variable before the arms.
    #[inline]
    pub fn save<S>(&self, held: &mut Held<S>, variable: &S)
    where
        K: Carry<S>,
    {
        if self.traced.is_some() {
            held.before = K::copy(variable);
        }
    }

    /// Begins the first arm.
    #[inline]
    pub fn begin(&self) {
        if let Some(it) = &self.traced {
            it.open.tracer.open("then", false);
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

    /// Returns whether only one arm runs.
    #[inline]
    pub fn is_decided(&self) -> bool {
        self.traced.is_none()
    }

    /// Carries a variable at the end of an arm, and at the end of both.
    pub fn carry<S>(&mut self, held: &mut Held<S>, variable: &mut S)
    where
        K: Carry<S>,
    {
        let Some(it) = &mut self.traced else { return set_distinct::<K, S>(variable) };
        match it.phase {
            Phase::First => {
                it.keep::<K, _>(held, Some(&*variable));
                if let Some(before) = held.before.take() {
                    let first = std::mem::replace(variable, before);
                    held.first = held.passes.then_some(first);
                }
            }
            Phase::Second => it.compare::<K, _>(held, Some(&*variable)),
            Phase::Joined => {
                if held.refused
                    && let Some(first) = held.first.take()
                {
                    *variable = first;
                }
                it.give::<K, _>(held, variable)
            }
        }
    }

    /// Passes the value of the first arm; `None` if the arm jumps.
    pub fn first<R>(&mut self, held: &mut Held<R>, value: Option<R>)
    where
        K: Carry<R>,
    {
        // The parameter is not `mut`, because rustc shows the signature in messages.
        let mut value = value;
        match &mut self.traced {
            Some(it) => it.keep::<K, _>(held, value.as_ref()),
            None => value.iter_mut().for_each(set_distinct::<K, R>),
        }
        held.first = value;
    }

    /// Returns the value of the first arm if only that one runs.
    #[inline]
    pub fn alone<R>(&self, held: &mut Held<R>) -> Option<R> {
        held.first.take()
    }

    /// Passes the value of the second arm.
    pub fn second<R>(&mut self, held: &mut Held<R>, value: &mut Option<R>)
    where
        K: Carry<R>,
    {
        match &mut self.traced {
            Some(it) => it.compare::<K, _>(held, value.as_ref()),
            None => value.iter_mut().for_each(set_distinct::<K, R>),
        }
    }

    /// Begins the second arm.
    pub fn turn(&mut self) {
        if let Some(it) = &mut self.traced {
            it.first = Some(it.open.tracer.suspend());
            it.open.tracer.open("else", false);
            it.phase = Phase::Second;
        }
    }

    /// Determines the kind of the loops that jumps inside leave.
    #[inline]
    pub fn votes(&self, _: Vote<K>) {}

    /// Marks the second arm as the path on which a loop or a function has been left.
    #[inline]
    pub fn passes(&mut self) {
        if let Some(it) = &mut self.traced {
            it.left[1] = true;
        }
    }

    /// Marks the second arm as the path on which a loop has been left. If the first arm certainly leaves the loop, it
    /// has certainly been left.
    pub fn leaves<L, R>(&mut self, held: &HeldFlow<R>, flow: &mut Flow<L, R>) {
        if self.traced.is_some() && held.flags.leaves.tensors.first().is_some_and(flow::is_set) {
            *flow.parts().0 = flow::left();
        }
    }

    /// Records that the function ends after the region.
    #[inline]
    pub fn ends(&mut self) {
        if let Some(it) = &mut self.traced {
            it.ends = true;
        }
    }

    /// Saves an exit like [`Branch::save`].
    pub fn save_flow<L, R>(&self, held: &mut HeldFlow<R>, flow: &Flow<L, R>)
    where
        K: Carry<R>,
    {
        if self.traced.is_some() {
            held.flags.before = Some(flow.flags().clone());
            held.value.before = flow.value().and_then(K::copy);
        }
    }

    /// Carries an exit like [`Branch::carry`].
    pub fn carry_flow<L: Kind, R>(&mut self, held: &mut HeldFlow<R>, flow: &mut Flow<L, R>)
    where
        K: Carry<R>,
    {
        let Some(it) = &mut self.traced else { return };
        let is_left = flow.ends();
        let (flags, value) = flow.parts();
        match it.phase {
            Phase::First => {
                it.left[0] |= is_left;
                it.keep::<OnTensor, _>(&mut held.flags, Some(&*flags));
                it.keep::<K, _>(&mut held.value, value.as_ref());
                if let Some(before) = held.flags.before.take() {
                    *flags = before;
                }
                held.value.first = std::mem::replace(value, held.value.before.take());
            }
            Phase::Second => {
                it.left[1] |= is_left;
                it.compare::<OnTensor, _>(&mut held.flags, Some(&*flags));
                it.compare::<K, _>(&mut held.value, value.as_ref());
            }
            Phase::Joined => {
                it.give::<OnTensor, _>(&held.flags, flags);
                *value = it.choice::<K, _>(&mut held.value, value.take());
            }
        }
    }

    /// Ends both arms.
    pub fn join(&mut self) {
        if let Some(it) = &mut self.traced {
            it.join();
        }
    }

    /// Returns the value of both arms. `second` is the value of the second arm.
    pub fn value<R>(&mut self, mut held: Held<R>, second: Option<R>) -> Option<R>
    where
        K: Carry<R>,
    {
        let Some(it) = &mut self.traced else { return second };
        it.choice::<K, _>(&mut held, second)
    }
}

impl Traced {
    fn keep<K: Carry<S>, S>(&mut self, held: &mut Held<S>, value: Option<&S>) {
        held.at = self.states.len();
        let mut state = State::default();
        if let Some(value) = value.filter(|it| !K::is_refusal(it)) {
            held.leaves = self.open.leaves::<K, _>(held.name, value);
            held.given = true;
            state.ends[0] = held.leaves.tensors.clone();
        }
        self.states.push(state);
    }

    fn compare<K: Carry<S>, S>(&mut self, held: &mut Held<S>, value: Option<&S>) {
        let tracer = self.open.tracer.clone();
        let state = &mut self.states[held.at];
        let Some(value) = value.filter(|it| !K::is_refusal(it)) else {
            state.ends[1] = state.ends[0].map_vec(|it| blank(&tracer, it));
            return;
        };
        let leaves = self.open.leaves::<K, _>(held.name, value);
        if !held.given {
            tracer.resume(self.first.take().expect("`turn` put the first arm aside"));
            state.ends[0] = leaves.tensors.map_vec(|it| blank(&tracer, it));
            self.first = Some(tracer.suspend());
            state.ends[1] = leaves.tensors;
            return;
        }
        let passes = held.passes && (self.ends || self.left[0] || self.left[1]);
        if passes && !has_same_types(&leaves, &held.leaves) {
            // The other arm's value is unused, and only needs the right type.
            if self.left[1] {
                held.refused = true;
                state.ends[1] = state.ends[0].map_vec(|it| blank(&tracer, it));
            } else {
                held.first = None;
                tracer.resume(self.first.take().expect("`turn` put the first arm aside"));
                state.ends[0] = leaves.tensors.map_vec(|it| blank(&tracer, it));
                self.first = Some(tracer.suspend());
                state.ends[1] = leaves.tensors;
            }
            return;
        }
        if !leaves.fits(&held.leaves) {
            // A host loop may depend on the value, so tracing cannot continue with a wrong one.
            let when = match self.skips {
                true => "where a jump skips what follows than where it goes on",
                false => "in one arm than in the other",
            };
            self.open.report(held.mismatch(when));
            abandon();
        } else {
            for (i, [one, other]) in held.leaves.tensors.iter().zip(&leaves.tensors).map(|(a, b)| [a, b]).enumerate() {
                if one.ty() != other.ty() && !one.is_poisoned() && !other.is_poisoned() {
                    held.refused = true;
                    let when = match self.skips {
                        true => "where it goes on, but where a jump skips what follows",
                        false => "in one arm, but in the other",
                    };
                    self.open.report(held.retyped(i, [one, other], when));
                }
            }
        }
        held.first = held.first.take().filter(|_| !held.passes);
        if held.refused {
            state.ends[0].clear();
        } else {
            state.ends[1] = leaves.tensors;
        }
    }

    fn join(&mut self) {
        let tracer = self.open.tracer.clone();
        let second = tracer.suspend();
        let first = self.first.take().expect("`turn` put the first arm aside");
        self.phase = Phase::Joined;
        let is_lost = self.condition.is_poisoned();
        let differs = |a: &Tensor, b: &Tensor| !(is_lost || a.is_poisoned() || b.is_poisoned() || tracer.is_same(a, b));
        let pairs = || self.states.iter().flat_map(|it| it.ends[0].iter().zip(&it.ends[1]));
        let (one, other): (Vec<Tensor>, Vec<Tensor>) =
            pairs().filter(|(a, b)| differs(a, b)).map(|(a, b)| (a.clone(), b.clone())).unzip();
        let joined = match is_lost {
            true => Ok(Vec::new()),
            false => tracer.branch(&self.condition, [(first, &one), (second, &other)], self.open.location),
        };
        let joined = joined.unwrap_or_else(|error| {
            self.open.report(error);
            one.map_vec(|it| tracer.poisoned(it.ty()))
        });
        let mut joined = joined.into_iter();
        for state in &mut self.states {
            let [one, other] = &state.ends;
            let result = |(a, b): (&Tensor, &Tensor)| match differs(a, b) {
                true => joined.next().expect("one result for each value that differs"),
                false if tracer.is_same(a, b) => a.adopted(),
                false => tracer.poisoned(a.ty()),
            };
            state.results = one.iter().zip(other).map(result).collect();
        }
    }

    /// Returns the value of both arms. One of them may have an error, or no value.
    fn choice<K: Carry<R>, R>(&self, held: &mut Held<R>, second: Option<R>) -> Option<R> {
        let first = held.first.take();
        if first.as_ref().is_some_and(K::is_refusal) {
            return first;
        }
        if second.as_ref().is_some_and(K::is_refusal) {
            return second;
        }
        let mut value = second.or(first)?;
        self.give::<K, _>(held, &mut value);
        Some(value)
    }

    fn give<K: Carry<S>, S>(&self, held: &Held<S>, value: &mut S) {
        let mut results = self.states[held.at].results.iter();
        K::put(value, &mut |tensor| match results.next() {
            Some(result) => result.clone(),
            None => self.open.tracer.poisoned(tensor.ty()),
        });
    }
}

/// Returns whether two structures differ only in the values of their tensors.
fn has_same_types(one: &Leaves, other: &Leaves) -> bool {
    let same = |(a, b): (&Tensor, &Tensor)| a.ty() == b.ty() || a.is_poisoned() || b.is_poisoned();
    one.fits(other) && one.tensors.iter().zip(&other.tensors).all(same)
}
