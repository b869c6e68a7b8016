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

    /// The inputs that an output is written over by the step that reads them for the last time.
    pub fn in_place_of(&self, output: usize) -> impl Iterator<Item = usize> {
        let output = output as u32;
        let first = self.in_place.partition_point(|it| it.0 < output);
        self.in_place[first..].iter().take_while(move |it| it.0 == output).map(|it| it.1 as usize)
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
        let outputs: FxHashMap<ValueIndex, u32> = (0..).zip(&flat.outputs).map(|(output, &it)| (it, output)).collect();
        let mut in_place = Vec::new();
        let written = |result: &ValueIndex, step: u32| {
            let output = outputs.get(result).copied();
            output.filter(|&it| touched_at[it as usize] == step)
        };
        for (step, draft) in (0..).zip(steps) {
            let emitted = match draft {
                Draft::Kernel(emitted) => emitted,
                Draft::Whole(node) => {
                    for (result, operand) in flat.updated(&flat.nodes[*node]) {
                        if let Origin::Input(input) = flat.values[operand].origin
                            && last[&operand] == step
                            && let Some(output) = written(&result, step)
                        {
                            in_place.push((output, input));
                        }
                    }
                    continue;
                }
            };
            let mut operands = emitted.overwritable(flat);
            operands.retain(|it| last[&it.0] == step);
            let inputs = operands.into_iter().filter_map(|(value, size)| match flat.values[value].origin {
                Origin::Input(input) => Some((input, size)),
                _ => None,
            });
            let inputs: Vec<(u32, usize)> = inputs.collect();
            for result in emitted.args.iter().filter(|it| it.role == Role::Output && it.dense) {
                if let Some(output) = written(&result.value, step) {
                    let size = flat.values[result.value].dtype.size();
                    in_place.extend(inputs.iter().filter(|it| it.1 == size).map(|it| (output, it.0)));
                }
            }
        }
        in_place.sort_unstable();
        Self { free_from, touched_at, in_place }
    }
}
