//! Determines which outputs of a routine may reuse the memory of its inputs.

use crate::lower::plan::draft::{Draft, OverInput};
use crate::lower::plan::{Reuse, is_stack};
use crate::lower::rewrites::flat::{Flat, Origin, ValueIndex};
use ms_ir::Graph;
use ms_ir::MapVec;
use rustc_hash::{FxHashMap, FxHashSet};

/// The steps that use a routine's values, and the values that these may overwrite.
pub(in crate::lower) struct Uses {
    /// The first step that accesses each value, if there is one.
    first: Vec<Option<u32>>,
    /// The last step that accesses each value, if there is one.
    last: Vec<Option<u32>>,
    /// Values, each with an input that it may overwrite: the step that writes the value is the input's last reader.
    over_inputs: Vec<(ValueIndex, u32)>,
    /// The output whose memory a value occupies. Besides the output itself, these are values of a chain from an input
    /// to the output, each of which may overwrite the previous one.
    pub output_of: FxHashMap<ValueIndex, u32>,
}

impl Uses {
    /// Computes the uses of the values of these steps.
    pub fn of(flat: &Flat, steps: &[Draft]) -> Self {
        let mut uses = Self {
            first: vec![None; flat.values.len()],
            last: vec![None; flat.values.len()],
            over_inputs: Vec::new(),
            output_of: (0..).zip(&flat.outputs).map(|(at, &it)| (it, at)).collect(),
        };
        let mut over: FxHashMap<ValueIndex, ValueIndex> = FxHashMap::default();
        for (step, draft) in (0..).zip(steps) {
            for it in draft.uses(flat) {
                if uses.first[it.value].is_none() {
                    uses.first[it.value] = Some(step);
                    over.extend(it.over.map(|over| (it.value, over)));
                }
                uses.last[it.value] = Some(step);
            }
        }
        for (step, draft) in (0..).zip(steps) {
            uses.add_over_inputs(flat, step, draft);
        }
        let over_input: FxHashSet<ValueIndex> = uses.over_inputs.iter().map(|it| it.0).collect();
        let bytes = |value: ValueIndex| flat.numel(value) * flat.values[value].dtype.size();
        for (output, &result) in (0..).zip(&flat.outputs) {
            let (mut value, mut before) = (result, Vec::<ValueIndex>::new());
            while !over_input.contains(&value) {
                let Some(&next) = over.get(&value) else { break };
                let is_free = flat.producer(next).is_some() && !uses.output_of.contains_key(&next);
                if !is_free || uses.last[next] != uses.first[value] || bytes(next) != bytes(value) {
                    break;
                }
                before.push(next);
                value = next;
            }
            if over_input.contains(&value) {
                uses.output_of.extend(before.into_iter().map(|it| (it, output)));
            }
        }
        uses
    }

    /// Returns the reuse that the steps of `graph`'s routine allow. The first `fallible` steps may fail.
    pub fn reuse(&self, graph: &Graph, flat: &Flat, fallible: u32) -> Reuse {
        let Self { first, last, over_inputs, output_of } = self;
        let in_array = |&id: &_| if is_stack(graph.ty(id)) { u32::MAX } else { 0 };
        let mut free_from: Vec<u32> = graph.inputs().map_vec(in_array);
        for (value, step) in last.iter().enumerate() {
            if let (Origin::Input(input), Some(step)) = (flat.values[value].origin, step) {
                let free = &mut free_from[input as usize];
                *free = (*free).max(step + 1);
            }
        }
        // An output without elements is not accessed.
        let mut touched_at: Vec<u32> = flat.outputs.map_vec(|it| first[*it].unwrap_or(0));
        for (value, &output) in output_of {
            if let Some(step) = first[*value] {
                let touched = &mut touched_at[output as usize];
                *touched = (*touched).min(step);
            }
        }
        let mut in_place = Vec::new();
        for &(value, input) in over_inputs {
            if let Some(&output) = output_of.get(&value)
                && Some(touched_at[output as usize]) == first[value]
            {
                in_place.push((output, input));
            }
        }
        in_place.sort_unstable();
        Reuse { free_from, touched_at, in_place, fallible }
    }

    fn add_over_inputs(&mut self, flat: &Flat, step: u32, draft: &Draft) {
        for OverInput { result, operand, input } in draft.over_inputs(flat) {
            // If several steps write a value, only the first one finds the previous contents in its memory.
            if self.first[result] == Some(step) && self.last[operand] == Some(step) {
                self.over_inputs.push((result, input));
            }
        }
    }
}
