//! Fuses kernels horizontally: adjacent independent kernels become one step of the plan.
//!
//! A device runs the kernels of a step concurrently. Kernels that are too small for several threads, or for a launch
//! each, such as optimiser updates of parameters, are worth it together. Fusion does not change what the kernels
//! compute.

use crate::lower::fusion::emitted::{Arg, Emitted, operands_of};
use crate::lower::plan::draft::Draft;
use crate::lower::plan::memory::ALIGN;
use crate::lower::plan::routines::Routines;
use crate::lower::rewrites::flat::{Flat, Origin, ValueIndex};
use rustc_hash::FxHashSet;

/// The maximum number of extra bytes that a fused step may need. It suffices for the statistics of many values, one
/// scalar each.
const MAX_BYTES: usize = 4 << 10;

/// Fuses each run of adjacent independent kernels into one step, unless that takes more memory.
pub(in crate::lower) fn fuse(flat: &Flat, steps: Vec<Draft>, routines: &Routines) -> Vec<Draft> {
    let is_kernel = |it: &Draft| matches!(it, Draft::Kernel(_));
    if !steps.windows(2).any(|it| it.iter().all(is_kernel)) {
        return steps;
    }
    let mut last_use = vec![0; flat.values.len()];
    for (step, draft) in steps.iter().enumerate() {
        draft.uses(flat).iter().for_each(|it| last_use[it.value] = step);
    }
    let is_output = flat.outputs.iter().copied().collect();
    let mut fusion = Fusion { flat, last_use, is_output, run: Run::default(), fused: Vec::with_capacity(steps.len()) };
    for (step, draft) in steps.into_iter().enumerate() {
        match draft {
            // A copy does not run if its result shares the memory of its operand.
            Draft::Kernel(emitted) if !routines.is_copy(emitted.kernel) => {
                let bytes = fusion.bytes_with(&emitted, step).unwrap_or_else(|| {
                    fusion.end_run();
                    0
                });
                fusion.push(*emitted, step, bytes);
            }
            other => {
                fusion.end_run();
                fusion.fused.push(other);
            }
        }
    }
    fusion.end_run();
    fusion.fused
}

struct Fusion<'a> {
    flat: &'a Flat,
    /// The last step before fusion that accesses each value.
    last_use: Vec<usize>,
    is_output: FxHashSet<ValueIndex>,
    run: Run,
    fused: Vec<Draft>,
}

/// The kernels of a future step.
#[derive(Default)]
struct Run {
    kernels: Vec<Emitted>,
    read: FxHashSet<ValueIndex>,
    written: FxHashSet<ValueIndex>,
    /// The sizes in bytes of inputs that no step after the run reads.
    left: FxHashSet<usize>,
    /// The extra bytes that all kernels but the first [need](Fusion::needs).
    bytes: usize,
}

impl Fusion<'_> {
    /// Returns the extra bytes of the run if the kernel of `step` joins it; `None` if it may not join.
    fn bytes_with(&self, emitted: &Emitted, step: usize) -> Option<usize> {
        let Run { kernels, read, written, bytes, .. } = &self.run;
        if kernels.is_empty() {
            return Some(0);
        }
        let clashes = |it: &Arg| written.contains(&it.value) || it.role.is_written() && read.contains(&it.value);
        if emitted.args.iter().any(clashes) {
            return None;
        }
        Some(bytes.saturating_add(self.needs(emitted, step))).filter(|it| *it <= MAX_BYTES)
    }

    /// Returns the extra bytes that a kernel may need if it joins the run. They are its results in the arena, which
    /// become live together with the run's operands, and outputs that can no longer overwrite an input.
    fn needs(&self, emitted: &Emitted, step: usize) -> usize {
        let pairs = emitted.overwritable(self.flat, &[]);
        let needs = |at: usize| {
            let value = emitted.args[at].value;
            let over = operands_of(&pairs, at).map(|it| emitted.args[it].value);
            let is_kept = self.is_output.contains(&value) && self.keeps_reuse(value, over, step);
            if is_kept { 0 } else { self.bytes(value).next_multiple_of(ALIGN) }
        };
        let results = (0..emitted.args.len()).filter(|&at| emitted.args[at].role.is_written());
        results.map(needs).fold(0, usize::saturating_add)
    }

    /// Returns whether an output of this step can still reuse memory of an equal size if the kernels of the run are the
    /// same step. `over` are the step's own values that it may overwrite. An output with such a value does not need the
    /// inputs that the run reads, since most outputs are updated in place.
    fn keeps_reuse(&self, output: ValueIndex, over: impl Iterator<Item = ValueIndex> + Clone, step: usize) -> bool {
        let origin = |value: ValueIndex| self.flat.values[value].origin;
        let is_free =
            |it: &ValueIndex| matches!(origin(*it), Origin::Input(_) | Origin::Node(_)) && self.last_use[*it] == step;
        let mut own = over.filter(is_free).peekable();
        if own.peek().is_some() {
            return own.all(|it| !self.run.read.contains(&it));
        }
        !self.run.left.contains(&self.bytes(output))
    }

    /// Adds the kernel of `step` to the run; `bytes` are the extra bytes that the run then needs.
    fn push(&mut self, emitted: Emitted, step: usize, bytes: usize) {
        for arg in &emitted.args {
            let values = if arg.role.is_written() { &mut self.run.written } else { &mut self.run.read };
            values.insert(arg.value);
            if matches!(self.flat.values[arg.value].origin, Origin::Input(_)) && self.last_use[arg.value] == step {
                let size = self.bytes(arg.value);
                self.run.left.insert(size);
            }
        }
        self.run.bytes = bytes;
        self.run.kernels.push(emitted);
    }

    /// Adds the step of the run.
    fn end_run(&mut self) {
        let mut kernels = std::mem::take(&mut self.run).kernels;
        match kernels.len() {
            0 | 1 => self.fused.extend(kernels.pop().map(|it| Draft::Kernel(Box::new(it)))),
            _ => self.fused.push(Draft::Kernels(kernels)),
        }
    }

    fn bytes(&self, value: ValueIndex) -> usize {
        self.flat.numel(value).saturating_mul(self.flat.values[value].dtype.size())
    }
}
