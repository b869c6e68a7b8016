//! Implements `ms::range`: loops over numbers on the device.

use super::bounds::{Bound, Bounds};
use super::carry::{Carry, Held};
use super::flow::{Flow, HeldFlow, Rounds, Vote};
use super::kind::{Host, OnTensor};
use super::reach::Reach;
use super::repeat::{Repeat, repeat};
use ms_ir::error::{Code, Error, raise};
use ms_ops::tensor::Tensor;
use std::marker::PhantomData;

/// The numbers from `start` to `stop`, exclusive, each an `i64[]`.
///
/// In traced annotated code, a `for` over it remains a loop. Everywhere else it is an iterator. See [`range`].
///
/// See the example of [`range`].
#[derive(Clone)]
pub struct Range(Bounds);

/// Returns the numbers from `start` to `stop`, exclusive. A bound is a number or a tensor of one integer, and each
/// number of the range is an `i64[]`.
///
/// In traced annotated code, a `for` over it is one loop of the graph, whatever its length. With numbers as bounds its
/// trip count is fixed; with tensors it is known at run time. A `for` over Rust's own ranges is unrolled instead.
///
/// Raises [`Code::DType`] for a tensor that is not one integer.
///
/// ```
/// use ms_core::{Tensor, trace::range};
/// let numbers: Vec<i64> = range(2, 5).into_iter().map(|it| it.item()).collect();
/// assert_eq!(numbers, [2, 3, 4]);
/// let stop = Tensor::scalar(3i64);
/// assert_eq!(range(0, &stop).into_iter().count(), 3);
/// ```
#[track_caller]
pub fn range(start: impl Into<Bound>, stop: impl Into<Bound>) -> Range {
    let (first, stop) = (start.into(), stop.into());
    let start = first.tensor();
    // Converted here, so that errors are at the user's source location.
    let stop = match stop {
        Bound::Tensor(_) => Bound::Tensor(stop.tensor()),
        number => number,
    };
    Range(Bounds { start, stop, first, step: 1 })
}

impl Range {
    /// Takes every `step`-th number. A negative step counts down.
    ///
    /// Raises [`Code::Argument`] for a step of zero.
    #[track_caller]
    pub fn step(mut self, step: i64) -> Self {
        if step == 0 {
            raise(Error::new(Code::Argument, "the step of a range is zero").with_op("range"));
        }
        self.0.step = step;
        self
    }
}

/// The numbers of a [`Range`].
pub struct Numbers {
    now: i64,
    left: usize,
    step: i64,
}

impl Iterator for Numbers {
    type Item = Tensor;

    fn next(&mut self) -> Option<Tensor> {
        self.left = self.left.checked_sub(1)?;
        let now = self.now;
        self.now = now.wrapping_add(self.step);
        Some(Tensor::scalar(now))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Numbers {}

/// Iterates outside annotated code, where the bounds must be known: a traced one raises [`Code::TracedValue`].
impl IntoIterator for Range {
    type Item = Tensor;
    type IntoIter = Numbers;

    #[track_caller]
    fn into_iter(self) -> Numbers {
        let number = |it: &Bound| match it {
            Bound::Number(it) => *it,
            Bound::Tensor(it) => it.item::<i64>(),
        };
        let (first, stop) = (number(&self.0.first), number(&self.0.stop));
        let known = Bounds { first: Bound::Number(first), stop: Bound::Number(stop), ..self.0 };
        Numbers { now: first, left: known.count().expect("both bounds are numbers"), step: known.step }
    }
}

/// The iterator of a `for` in annotated code.
pub struct Over<I>(pub I);

/// A `for` of annotated code: over a host iterator, or over a [`Range`].
pub struct For<K, I> {
    region: Repeat<K>,
    source: I,
}

/// The iteration state of a `for` over a [`Range`].
pub struct Counting {
    bounds: Bounds,
    numbers: Option<Numbers>,
}

impl Over<Range> {
    /// Begins a device loop, or a host loop if nothing is traced.
    pub fn iterate(self) -> For<OnTensor, Counting> {
        For { region: repeat(), source: Counting { bounds: self.0.0, numbers: None } }
    }
}

/// A `for` over anything but a [`Range`].
pub trait Iterate {
    /// The iterator.
    type Items: Iterator;

    /// Begins a host loop.
    fn iterate(self) -> For<Host, Self::Items>;
}

impl<I: IntoIterator> Iterate for Over<I> {
    type Items = I::IntoIter;

    #[inline]
    fn iterate(self) -> For<Host, I::IntoIter> {
        let source = self.0.into_iter();
        let rounds = match source.size_hint() {
            (usize::MAX, _) => Rounds::Endless,
            (_, Some(_)) => Rounds::Bounded,
            (_, None) => Rounds::Open,
        };
        let mut region = repeat();
        region.rounds = rounds;
        For { region, source }
    }
}

impl<K, I> For<K, I> {
    /// Returns the loop's region.
    #[inline]
    pub fn region(&self) -> &Repeat<K> {
        &self.region
    }

    /// Determines the kind of the loops that jumps inside leave.
    #[inline]
    pub fn votes(&self, _: Vote<K>) {}

    /// Returns the kind of the region.
    #[inline]
    pub fn kind(&self) -> PhantomData<K> {
        PhantomData
    }
}

impl<I: Iterator> For<Host, I> {
    /// Begins an iteration.
    #[inline]
    pub fn head(&mut self) {}

    /// Returns whether tracing of the loop is complete.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        false
    }

    /// Accepts all uses of names, which are unrestricted in a host loop.
    #[inline]
    pub fn uses(&self, _: &str, _: Reach) {}

    /// Carries a variable at the borders of the loop.
    #[inline]
    pub fn carry<S>(&mut self, _: &mut Held<S>, _: &mut S) {}

    /// Carries an exit at the borders of the loop.
    #[inline]
    pub fn carry_flow<L, R>(&mut self, _: &mut HeldFlow<R>, _: &mut Flow<L, R>, _: bool) {}

    /// Returns the next item.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it is called by expansions of `for`")]
    pub fn next(&mut self) -> Option<I::Item> {
        self.source.next()
    }
}

impl For<OnTensor, Counting> {
    /// Begins an iteration.
    #[track_caller]
    pub fn head(&mut self) {
        self.region.head_of(&self.source.bounds);
    }

    /// Returns whether tracing of the loop is complete.
    pub fn is_over(&mut self) -> bool {
        self.region.is_over()
    }

    /// See [`Repeat::uses`].
    #[track_caller]
    #[inline]
    pub fn uses(&self, name: &str, reach: Reach) {
        self.region.uses(name, reach);
    }

    /// Carries a variable at the borders of the loop.
    pub fn carry<S>(&mut self, held: &mut Held<S>, variable: &mut S)
    where
        OnTensor: Carry<S>,
    {
        self.region.carry(held, variable);
    }

    /// Carries an exit at the borders of the loop. `own` marks the exit of the loop itself.
    pub fn carry_flow<L, R>(&mut self, held: &mut HeldFlow<R>, flow: &mut Flow<L, R>, own: bool)
    where
        OnTensor: Carry<R>,
    {
        self.region.carry_flow(held, flow, own);
    }

    /// Returns the next number.
    #[track_caller]
    #[expect(clippy::should_implement_trait, reason = "it is called by expansions of `for`")]
    pub fn next(&mut self) -> Option<Tensor> {
        if let Some(counter) = self.region.counter() {
            return Some(counter);
        }
        let bounds = &self.source.bounds;
        self.source.numbers.get_or_insert_with(|| Range(bounds.clone()).into_iter()).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_as_rust_does() {
        for (first, stop, step) in
            [(0, 5, 1), (0, 5, 2), (0, 6, 2), (3, 3, 1), (5, 0, 1), (10, -5, -3), (0, 5, -1), (2, -4, -2)]
        {
            let mut want = Vec::new();
            let mut i = first;
            while (step > 0 && i < stop) || (step < 0 && i > stop) {
                want.push(i);
                i += step;
            }
            let got: Vec<i64> = range(first, stop).step(step).into_iter().map(|it| it.item()).collect();
            assert_eq!(got, want, "{first}..{stop} by {step}");
        }
    }
}
