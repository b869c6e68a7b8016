//! Which outputs of a routine may lie in the memory of its inputs.

use super::assemble::Draft;
use super::flatten::{Flat, Origin, ValueIndex};
use super::plan::is_stack;
use crate::ir::{Graph, Role};
use rustc_hash::FxHashMap;

/// When inputs are read for the last time, and outputs first touched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reuse {
    /// By input, the first step from which on nobody reads it; of one whose elements lie elsewhere
    /// (see [`Routine`](super::Routine)), none.
    pub free_from: Vec<u32>,
    /// By output, the step that first touches it.
    pub touched_at: Vec<u32>,
    /// Outputs, and inputs that are read for the last time by the step that writes the output:
    /// each element before that of the output is written, or the step updates them. Sorted.
    pub in_place: Vec<(u32, u32)>,
}

impl Reuse {
    /// Whether an output may be written over an input of as many bytes.
    pub fn allows(&self, output: usize, input: usize) -> bool {
        let (Some(free), Some(touched)) = (self.free_from.get(input), self.touched_at.get(output)) else {
            return false;
        };
        free <= touched || self.in_place.binary_search(&(output as u32, input as u32)).is_ok()
    }

    /// What the steps of the routine of `graph` allow.
    pub(super) fn of(graph: &Graph, flat: &Flat, steps: &[Draft]) -> Self {
        let mut first: FxHashMap<ValueIndex, u32> = FxHashMap::default();
        let mut last: FxHashMap<ValueIndex, u32> = FxHashMap::default();
        for (step, draft) in (0..).zip(steps) {
            for it in draft.uses(flat) {
                first.entry(it.value).or_insert(step);
                last.insert(it.value, step);
            }
        }
        let in_array = |&id: &_| if is_stack(graph.ty(id)) { u32::MAX } else { 0 };
        let mut free_from: Vec<u32> = graph.inputs().iter().map(in_array).collect();
        for (&value, &step) in &last {
            if let Origin::Input(input) = flat.values[value].origin {
                let free = &mut free_from[input as usize];
                *free = (*free).max(step + 1);
            }
        }
        // Nobody touches an output without elements.
        let touched_at: Vec<u32> = flat.outputs.iter().map(|it| first.get(it).map_or(0, |&step| step)).collect();
        let mut in_place = Vec::new();
        for ((output, value), &step) in (0..).zip(&flat.outputs).zip(&touched_at) {
            let operands: Vec<ValueIndex> = match steps.get(step as usize) {
                Some(Draft::Kernel(emitted)) => {
                    let results = emitted.args.iter().filter(|it| it.role == Role::Output && it.value == *value);
                    results.flat_map(|it| emitted.overwritable(flat, it)).collect()
                }
                Some(Draft::Whole(node)) => {
                    let updated = flat.updated(&flat.nodes[*node]).into_iter();
                    updated.filter(|it| it.0 == *value).map(|it| it.1).collect()
                }
                None => continue,
            };
            for operand in operands {
                if let Origin::Input(input) = flat.values[operand].origin
                    && last[&operand] == step
                {
                    in_place.push((output, input));
                }
            }
        }
        in_place.sort_unstable();
        Self { free_from, touched_at, in_place }
    }
}
