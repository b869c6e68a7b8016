//! Tracks values that depend on watched ones through step functions: ops that are constant almost everywhere, so that
//! gradients do not pass them.

use super::entry::Recorded;
use ms_ir::MapVec;
use ms_ops::tensor::{HeldIdentity, Tensor};
use ms_trace::transform::{Slot, StepFunction};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::cell::Cell;

thread_local! {
    /// Whether this thread runs derivative rules, whose step functions are not the user's.
    static IN_RULES: Cell<bool> = const { Cell::new(false) };
}

/// Runs derivative rules without recording their step functions.
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

/// The number of a hidden value.
type HiddenId = u32;

/// A hidden value: the result of a step function, or computed from such results.
struct HiddenValue {
    /// The step function applied to the values of `slots`.
    step: Option<StepFunction>,
    slots: SmallVec<[Slot; 2]>,
    hidden: SmallVec<[HiddenId; 2]>,
}

/// The hidden values. Their memory is not kept alive.
#[derive(Default)]
pub(super) struct HiddenValues {
    by_identity: FxHashMap<usize, HiddenId>,
    held: Vec<HeldIdentity>,
    all: Vec<HiddenValue>,
    /// Hidden values on which the results of recorded ops depend, besides their operands with slots.
    of_slots: FxHashMap<Slot, SmallVec<[HiddenId; 2]>>,
}

impl HiddenValues {
    /// Returns whether there are no hidden values.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the hidden values among tensors.
    pub fn among<'a>(&self, tensors: impl IntoIterator<Item = &'a Tensor>) -> SmallVec<[HiddenId; 2]> {
        if self.is_empty() {
            return SmallVec::new();
        }
        tensors.into_iter().filter_map(|it| self.by_identity.get(&it.identity()).copied()).collect()
    }

    /// Records a value that depends on `slots` through the step function, and on other hidden values. Returns `None` if
    /// it depends on neither.
    pub fn add(
        &mut self,
        step: Option<StepFunction>,
        slots: SmallVec<[Slot; 2]>,
        hidden: &[HiddenId],
    ) -> Option<HiddenId> {
        if slots.is_empty() && hidden.is_empty() || IN_RULES.get() {
            return None;
        }
        self.all.push(HiddenValue { step, slots, hidden: hidden.into() });
        Some(self.all.len() as HiddenId - 1)
    }

    /// Records that a tensor without a slot is this hidden value.
    pub fn name(&mut self, tensor: &Tensor, hidden: HiddenId) {
        self.by_identity.insert(tensor.identity(), hidden);
        self.held.push(tensor.hold_identity());
    }

    /// Records that the value of a slot depends on hidden values.
    pub fn pass(&mut self, slot: Slot, hidden: &[HiddenId]) {
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

    /// Returns, for each target on which the results depend only through step functions, one of these step functions.
    /// The results are slots and hidden values.
    pub fn hiding(
        &self,
        steps: &[Box<dyn Recorded>],
        results: &[Slot],
        hidden: &[HiddenId],
        targets: &[Slot],
    ) -> Vec<StepFunction> {
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
        // Every path from here to a target that gradients do not reach contains a step function.
        let mut found = Vec::new();
        let (mut seen, mut seen_hidden) = (FxHashSet::default(), FxHashSet::default());
        let mut ways: Vec<(HiddenId, Option<StepFunction>)> = hidden.map_vec(|&it| (it, None));
        let passed = reached.iter().filter_map(|it| self.of_slots.get(it)).flatten();
        ways.extend(passed.map(|&it| (it, None)));
        while let Some((at, step)) = ways.pop() {
            if !seen_hidden.insert(at) {
                continue;
            }
            let HiddenValue { step: own, slots, hidden } = &self.all[at as usize];
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
