//! Implements `break`, `continue` and `return` that depend on a tensor, by flags that guard the following code, and the
//! value of the jump.
//!
//! A jump that leaves no region under construction is plain Rust. Any other jump sets the flags of every loop that it
//! leaves, and jumps to the end of the innermost region. The code after it runs only while the flag of its loop is not
//! set.

use super::carry::{Carry, Held, Leaves, held};
use super::kind::{Condition, Decision, Host, Kind, OnTensor};
use crate::trace::tracer::Tracer;
use ms_ir::error::{Code, Error, abandon};
use ms_ops::ops;
use ms_ops::tensor::Tensor;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::LazyLock;

/// The kind of a region, which determines the kind of the flags of the loops that jumps leave from it.
pub struct Vote<K>(PhantomData<K>);

impl<K> Clone for Vote<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Vote<K> {}

/// Creates a kind that a region will determine.
#[inline]
pub fn vote<K>() -> Vote<K> {
    Vote(PhantomData)
}

/// [`OnTensor`] if one of the kinds is.
pub trait Any {
    /// The combined kind.
    type Kind: Kind;
}

/// See [`Any`].
pub trait Either<K: Kind> {
    /// [`OnTensor`] if one of the two kinds is.
    type Kind: Kind;
}

impl<K: Kind> Either<K> for Host {
    type Kind = K;
}

impl<K: Kind> Either<K> for OnTensor {
    type Kind = OnTensor;
}

impl Any for () {
    type Kind = Host;
}

impl<K: Either<R::Kind>, R: Any> Any for (Vote<K>, R) {
    type Kind = K::Kind;
}

/// The two constant values of a flag. Each is a single tensor, so that equal constants have equal identities.
static FLAGS: LazyLock<[Tensor; 2]> = LazyLock::new(|| [false, true].map(Tensor::scalar));

fn flag(value: bool) -> Tensor {
    FLAGS[value as usize].clone()
}

/// Returns the flags of a loop that has been left.
pub(super) fn left() -> (Tensor, Tensor) {
    (flag(true), flag(true))
}

/// Returns whether a flag is certainly set.
pub(super) fn is_set(flag: &Tensor) -> bool {
    known(flag) == Some(true)
}

fn known(flag: &Tensor) -> Option<bool> {
    flag.as_array()?;
    Some(flag.identity() == FLAGS[1].identity())
}

fn depth() -> usize {
    Tracer::current().map_or(0, |it| it.depth())
}

/// The exit state of a loop, an iteration of it, or a function.
pub struct Flow<K, R> {
    kind: PhantomData<K>,
    /// Whether the loop has been left, and whether the rest of the iteration, or of the function, is skipped.
    flags: (Tensor, Tensor),
    /// The value of the jump.
    value: Option<R>,
    outside: usize,
    inside: usize,
    /// The number of iterations traced since a tensor may have left the loop.
    waited: usize,
}

/// The number of iterations of a host loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounds {
    /// Finite.
    Bounded,
    /// Unknown.
    Open,
    /// Infinite.
    Endless,
}

/// The maximal number of iterations of a potentially infinite loop that are traced after a tensor may have left it.
const PATIENCE: usize = 10_000;

/// Creates the exit state of a loop or a function.
#[inline]
pub fn flow<V: Any, R>(_: V) -> Flow<V::Kind, R> {
    let depth = depth();
    Flow { kind: PhantomData, flags: (flag(false), flag(false)), value: None, outside: depth, inside: depth, waited: 0 }
}

/// The condition that the rest is not skipped.
pub struct GoesOn<K>(PhantomData<K>, Tensor);

#[diagnostic::do_not_recommend]
impl<K: Kind> Condition for GoesOn<K> {
    type Kind = K;
    const SKIPS: bool = true;

    #[track_caller]
    fn decision(&self) -> Decision {
        match known(&self.1) {
            Some(left) => Decision::Known(!left),
            None => ops::logical_not(&self.1).decision(),
        }
    }
}

impl<K: Kind, R> Flow<K, R> {
    /// Returns whether `break` or `return` here leaves no region under construction.
    #[inline]
    pub fn is_near(&self) -> bool {
        !K::ON_TENSOR || depth() == self.outside
    }

    /// Returns whether `continue` here leaves no region under construction.
    #[inline]
    pub fn is_inside(&self) -> bool {
        !K::ON_TENSOR || depth() == self.inside
    }

    /// Leaves the loop or the function.
    pub fn leave(&mut self) {
        self.flags = left();
    }

    /// Skips the rest of the iteration.
    pub fn skip(&mut self) {
        self.flags.1 = flag(true);
    }

    /// Sets the value of the jump.
    #[inline]
    pub fn give(&mut self, value: R) {
        self.value = Some(value);
    }

    /// Returns the condition that the rest is not skipped.
    pub fn goes_on(&self) -> GoesOn<K> {
        GoesOn(PhantomData, self.flags.1.clone())
    }

    /// Returns the condition that the loop has not been left.
    pub fn repeats(&self) -> GoesOn<K> {
        GoesOn(PhantomData, self.flags.0.clone())
    }

    /// Returns whether the rest is certainly skipped. The flag also leaves a host loop if a jump out of it leaves an
    /// enclosing region.
    #[inline]
    pub fn is_left(&self) -> bool {
        is_set(&self.flags.1)
    }

    /// Returns whether the loop has certainly been left.
    #[inline]
    pub fn ends(&self) -> bool {
        is_set(&self.flags.0)
    }

    /// Begins an iteration of a loop that is traced, or of a host loop.
    #[track_caller]
    #[inline]
    pub(super) fn begin_iteration(&mut self, is_traced: bool, rounds: Rounds) {
        if K::ON_TENSOR {
            self.flags.1 = if is_traced { flag(false) } else { self.flags.0.clone() };
            self.inside = depth();
            if !is_traced && known(&self.flags.0).is_none() {
                self.wait(rounds);
            }
        }
    }

    /// Checks a host loop that advances a variable used after it.
    #[track_caller]
    #[inline]
    pub(super) fn advances_on_host(&self, name: &str) {
        if K::ON_TENSOR && known(&self.flags.0).is_none() {
            advanced(name);
        }
    }

    /// Counts an iteration after a tensor may have left the loop while the host continues.
    #[track_caller]
    #[cold]
    fn wait(&mut self, rounds: Rounds) {
        self.waited += 1;
        let patience = match rounds {
            Rounds::Bounded => return,
            Rounds::Open => PATIENCE,
            Rounds::Endless => 0,
        };
        let Some(tracer) = Tracer::current().filter(|_| self.waited > patience) else { return };
        let help = "count with `for i in ms::range(a, b)`, or loop `while` a condition on tensors holds: such loops \
                    stay loops of the graph";
        let error = Error::new(Code::HostLoop, "a loop of the host that only a tensor ends is traced without an end");
        tracer.report(error.at(Location::caller()).help(help));
        abandon();
    }

    /// Returns the value with which a loop was left.
    #[inline]
    pub fn take(self) -> Option<R> {
        self.value
    }

    /// Returns the result of a function that ends with `value`, unless a jump left it before.
    #[track_caller]
    pub fn result(self, value: Option<R>) -> Option<R>
    where
        K: Carry<R>,
    {
        let (one, other) = match (self.value, value) {
            (Some(one), Some(other)) => (one, other),
            (one, other) => return one.or(other),
        };
        match known(&self.flags.1) {
            Some(true) => return Some(one),
            Some(false) => return Some(other),
            None if K::is_refusal(&one) => return Some(one),
            None if K::is_refusal(&other) => return Some(other),
            None => {}
        }
        let tracer = Tracer::current()?;
        Some(choose::<K, _>(&tracer, &self.flags.1, one, other))
    }
}

#[track_caller]
#[cold]
fn advanced(name: &str) {
    let Some(tracer) = Tracer::current() else { return };
    let message = format!("{name} changes in the head of a host loop that a tensor may have left before");
    let error = Error::new(Code::HostChange, message).help(
        "what the head takes is gone for every value of the tensor: do not use it behind the loop, or run over a clone",
    );
    tracer.report_once(error.at(Location::caller()));
}

impl<K, R> Flow<K, R> {
    pub(super) fn parts(&mut self) -> (&mut (Tensor, Tensor), &mut Option<R>) {
        (&mut self.flags, &mut self.value)
    }

    pub(super) fn flags(&self) -> &(Tensor, Tensor) {
        &self.flags
    }

    pub(super) fn value(&self) -> Option<&R> {
        self.value.as_ref()
    }
}

/// Selects `one` if `condition` holds, else `other`. Both have values.
#[track_caller]
fn choose<K: Carry<R>, R>(tracer: &Tracer, condition: &Tensor, one: R, mut other: R) -> R {
    let mut held: Held<R> = held("the result");
    held.leaves = Leaves::of::<K, _>(&one);
    tracer.check_leaks(&mut held.leaves.tensors, held.name, Location::caller());
    let leaves = Leaves::of::<K, _>(&other);
    let report = |error: Error| tracer.report(error.at(Location::caller()));
    if !held.leaves.fits(&leaves) {
        report(held.mismatch("where the function is left early than at its end"));
        return other;
    }
    let mut at = 0;
    K::put(&mut other, &mut |other| {
        let one = &held.leaves.tensors[at];
        at += 1;
        if one.is_poisoned() || other.is_poisoned() || condition.is_poisoned() || tracer.is_same(one, other) {
            return if one.is_poisoned() { one.clone() } else { other.clone() };
        }
        if one.ty() != other.ty() {
            report(held.retyped(at - 1, [one, other], "where the function is left early, but at its end"));
            return tracer.poisoned(one.ty());
        }
        ops::select(condition, one, other)
    });
    other
}

/// The saved state of a [`Flow`] in a region.
pub struct HeldFlow<R> {
    pub(super) flags: Held<(Tensor, Tensor)>,
    pub(super) value: Held<R>,
}

/// Creates an empty saved state.
#[inline]
pub fn held_flow<R>() -> HeldFlow<R> {
    HeldFlow { flags: held("the way out"), value: held("the value that is left with") }
}
