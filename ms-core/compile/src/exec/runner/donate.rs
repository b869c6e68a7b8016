//! Assigns donated inputs to the outputs that reuse their memory.

use super::{ANY, Input, Output};
use crate::exec::Donation;
use crate::lower::Reuse;
use ms_ir::MapVec;
use ms_ir::data::Array;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The inputs and outputs of a plan by size. A run then visits each of them once.
pub(super) struct Donors {
    /// Inputs by size. Inputs of equal size are in the order of their last uses in the plan.
    order: Vec<u32>,
    /// The range in `order` of the inputs of each distinct size.
    lengths: SmallVec<[(u32, u32); 4]>,
    /// The index of each input's size.
    inputs: Vec<u32>,
    /// The index of each output's size; `None` if no input has it.
    outputs: Vec<Option<u32>>,
}

impl Donors {
    /// Builds the donors of a plan with these inputs and outputs.
    pub fn new(inputs: &[Input], outputs: &[Output], reuse: &Reuse) -> Self {
        let size = |&it: &usize| if it == ANY { 0 } else { it };
        let bytes = |it: &Input| it.sizes.iter().map(size).product::<usize>() * it.dtype.size();
        let mut order: Vec<u32> = (0..inputs.len() as u32).collect();
        order.sort_by_key(|&it| (bytes(&inputs[it as usize]), reuse.free_from.get(it as usize)));
        let mut lengths: SmallVec<[(u32, u32); 4]> = SmallVec::new();
        let mut known: FxHashMap<usize, u32> = FxHashMap::default();
        let mut length_of = vec![0; inputs.len()];
        for (at, &input) in (0..).zip(&order) {
            let length = *known.entry(bytes(&inputs[input as usize])).or_insert_with(|| {
                lengths.push((at, at));
                lengths.len() as u32 - 1
            });
            lengths[length as usize].1 = at + 1;
            length_of[input as usize] = length;
        }
        let output = |it: &Output| match it {
            Output::Array(layout, dtype) => {
                known.get(&(layout.shape().iter().product::<usize>() * dtype.size())).copied()
            }
            Output::Stack(_) => None,
        };
        let outputs = outputs.map_vec(output);
        Self { order, lengths, inputs: length_of, outputs }
    }

    /// Returns for each output an input, without other references, whose memory it may reuse, if there is one. Each
    /// input is assigned to at most one output, as its [`Donation`] allows. The preferred output of a state is its new
    /// value.
    pub fn find(
        &self,
        inputs: &mut [Array],
        donations: &[Donation],
        outputs: &[Output],
        reuse: &Reuse,
    ) -> SmallVec<[Option<usize>; 4]> {
        let donation = |input: usize| donations.get(input).copied().unwrap_or_default();
        let mut spare: SmallVec<[bool; 16]> = inputs.iter_mut().map(Array::is_sole).collect();
        let mut donors: SmallVec<[Option<usize>; 4]> = SmallVec::from_elem(None, self.outputs.len());
        let state = |(input, it): (usize, &Donation)| match *it {
            Donation::State(output) => Some((input, output as usize)),
            Donation::Given | Donation::Lent => None,
        };
        for (input, output) in donations.iter().enumerate().filter_map(state) {
            let fits = self.outputs.get(output) == Some(&self.inputs.get(input).copied());
            if fits && spare[input] && reuse.allows_state(output, input) {
                spare[input] = false;
                donors[output] = Some(input);
            }
        }
        // Inputs before these are assigned or have other references.
        let mut firsts: SmallVec<[u32; 4]> = self.lengths.iter().map(|it| it.0).collect();
        let mut find = |output: usize, length: u32| {
            // Inputs that this output may overwrite in place are preferred, since few other outputs can reuse them.
            let is_kept = |it: usize| match donation(it) {
                Donation::Given => false,
                Donation::State(_) => !reuse.allows_state(output, it),
                Donation::Lent => !outputs[output].has_type_of(&inputs[it]),
            };
            let fits = |it: &usize| spare.get(*it) == Some(&true) && self.inputs[*it] == length && !is_kept(*it);
            let taken = reuse.in_place_of(output).find(fits).or_else(|| {
                let (first, end) = (&mut firsts[length as usize], self.lengths[length as usize].1);
                let is_free = |it: usize| spare[it] && donation(it) == Donation::Given;
                while *first < end && !is_free(self.order[*first as usize] as usize) {
                    *first += 1;
                }
                let input = *self.order[..end as usize].get(*first as usize)? as usize;
                // If this input is live for too long in the plan, so are all later ones.
                reuse.allows(output, input).then_some(input)
            })?;
            spare[taken] = false;
            Some(taken)
        };
        for (output, (donor, length)) in donors.iter_mut().zip(&self.outputs).enumerate() {
            *donor = donor.or_else(|| find(output, (*length)?));
        }
        donors
    }
}
