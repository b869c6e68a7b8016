//! Values that depend on watched ones through steps: ops that values pass and gradients do not.

use super::entry::Recorded;
use crate::tensor::{HeldIdentity, Tensor};
use crate::transform::{Slot, Step};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::cell::Cell;

thread_local! {
    /// Whether this thread runs rules of derivatives, whose steps are not the user's.
    static IN_RULES: Cell<bool> = const { Cell::new(false) };
}

/// Runs rules of derivatives; their steps are not recorded.
pub(super) fn in_rules<R>(f: impl FnOnce() -> R) -> R {
    /// Ends the rules, also when they unwind.
    struct Outer(bool);
    impl Drop for Outer {
        fn drop(&mut self) {
            IN_RULES.set(self.0);
        }
    }
    let _outer = Outer(IN_RULES.replace(true));
    f()
}

/// The number of a value behind a step.
type Hidden = u32;

/// A value behind a step, or computed from such values.
struct Behind {
    /// The step before the values of `slots`.
    step: Option<Step>,
    slots: SmallVec<[Slot; 2]>,
    hidden: SmallVec<[Hidden; 2]>,
}

/// The values behind steps. Their memory is not kept.
#[derive(Default)]
pub(super) struct Steps {
    by_identity: FxHashMap<usize, Hidden>,
    held: Vec<HeldIdentity>,
    all: Vec<Behind>,
    /// Values behind steps that the results of recorded ops depend on, besides their operands with slots.
    of_slots: FxHashMap<Slot, SmallVec<[Hidden; 2]>>,
}

impl Steps {
    /// Whether nothing is behind a step.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The values behind steps among tensors.
    pub fn among<'a>(&self, tensors: impl IntoIterator<Item = &'a Tensor>) -> SmallVec<[Hidden; 2]> {
        if self.is_empty() {
            return SmallVec::new();
        }
        tensors.into_iter().filter_map(|it| self.by_identity.get(&it.identity()).copied()).collect()
    }

    /// Records a value that depends on `slots` through the step, and on what is behind others; `None` if on nothing.
    pub fn add(&mut self, step: Option<Step>, slots: SmallVec<[Slot; 2]>, hidden: &[Hidden]) -> Option<Hidden> {
        if slots.is_empty() && hidden.is_empty() || IN_RULES.get() {
            return None;
        }
        self.all.push(Behind { step, slots, hidden: hidden.into() });
        Some(self.all.len() as Hidden - 1)
    }

    /// Records that a tensor without a slot is such a value.
    pub fn name(&mut self, tensor: &Tensor, hidden: Hidden) {
        self.by_identity.insert(tensor.identity(), hidden);
        self.held.push(tensor.hold_identity());
    }

    /// Records that the value of a slot depends on what is behind a step.
    pub fn pass(&mut self, slot: Slot, hidden: &[Hidden]) {
        if !hidden.is_empty() {
            self.of_slots.entry(slot).or_default().extend_from_slice(hidden);
        }
    }

    /// Records another identity of a tensor.
    pub fn alias(&mut self, tensor: &Tensor, alias: &Tensor) {
        if let Some(&hidden) = self.by_identity.get(&tensor.identity()) {
            self.name(alias, hidden);
        }
    }

    /// A step before each of the `targets` on which values with these slots, and those behind steps, depend through steps
    /// only.
    pub fn hiding(
        &self,
        steps: &[Box<dyn Recorded>],
        results: &[Slot],
        behind: &[Hidden],
        targets: &[Slot],
    ) -> Vec<Step> {
        let of_slot: FxHashMap<Slot, usize> =
            (0..steps.len()).flat_map(|at| steps[at].outputs().iter().flatten().map(move |&slot| (slot, at))).collect();
        let inputs = |slot: Slot| {
            let step = of_slot.get(&slot).map(|&at| &steps[at]);
            step.into_iter().flat_map(|it| it.inputs().iter().enumerate().filter(|at| it.passes(at.0)))
        };
        let mut reached: FxHashSet<Slot> = FxHashSet::default();
        let mut open = results.to_vec();
        while let Some(slot) = open.pop() {
            if reached.insert(slot) {
                open.extend(inputs(slot).filter_map(|it| *it.1));
            }
        }
        let wanted: FxHashSet<Slot> = targets.iter().copied().filter(|it| !reached.contains(it)).collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        // From here every way to a wanted slot has a step.
        let mut found = Vec::new();
        let (mut seen, mut seen_hidden) = (FxHashSet::default(), FxHashSet::default());
        let mut ways: Vec<(Hidden, Option<Step>)> = behind.iter().map(|&it| (it, None)).collect();
        let passed = reached.iter().filter_map(|it| self.of_slots.get(it)).flatten();
        ways.extend(passed.map(|&it| (it, None)));
        while let Some((at, step)) = ways.pop() {
            if !seen_hidden.insert(at) {
                continue;
            }
            let Behind { step: own, slots, hidden } = &self.all[at as usize];
            let step = step.or(*own);
            ways.extend(hidden.iter().map(|&it| (it, step)));
            let mut slots = slots.to_vec();
            while let Some(slot) = slots.pop() {
                if !seen.insert(slot) {
                    continue;
                }
                found.extend(step.filter(|_| wanted.contains(&slot)));
                slots.extend(inputs(slot).filter_map(|it| *it.1));
                ways.extend(self.of_slots.get(&slot).into_iter().flatten().map(|&it| (it, step)));
            }
        }
        found
    }
}
