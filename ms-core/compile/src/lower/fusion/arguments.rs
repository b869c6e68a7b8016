//! Bounds the arguments of a group's kernel by the budget of the target.

use crate::lower::fusion::domain::Domain;
use crate::lower::fusion::group::Grouper;
use crate::lower::rewrites::flat::{Access, FlatNode, ValueIndex};
use rustc_hash::FxHashMap;

impl Grouper<'_> {
    /// Returns the values that both groups read from others; `None` if there are too many.
    pub(super) fn joint_inputs(&self, own: usize, source: usize) -> Option<Vec<ValueIndex>> {
        let mut inputs = self.drafts[source].inputs.clone();
        for &value in &self.drafts[own].inputs {
            let inside = self.group_of(value).is_some_and(|it| it == own || it == source);
            if !inside && !inputs.contains(&value) {
                inputs.push(value);
            }
        }
        (inputs.len() <= self.target.budget.inputs).then_some(inputs)
    }

    /// Returns whether the argument block of a kernel of both groups, with `inputs` inputs, is within the budget.
    pub(super) fn words_fit(&self, groups: [usize; 2], inputs: usize, domain: &Domain) -> bool {
        let loops = domain.axes().len();
        // A stored value may be read again through another param. Each param may be indexed, which takes two words, and
        // each loop may have a base.
        let words = |stored: usize| 2 * loops + (inputs + 2 * stored) * (3 + loops);
        let most = self.target.budget.words;
        let outputs = || self.nodes_of(groups).flat_map(|it| &it.outputs);
        if words(outputs().count()) <= most {
            return true;
        }
        let inside = self.reads_inside(groups);
        let is_stored = |it: &&ValueIndex| inside.get(*it).is_none_or(|&reads| reads < self.uses[**it]);
        words(outputs().filter(is_stored).count()) <= most
    }

    /// Returns how often the nodes of two groups read each value.
    pub(super) fn reads_inside(&self, groups: [usize; 2]) -> FxHashMap<ValueIndex, u32> {
        let mut inside = FxHashMap::default();
        for value in self.nodes_of(groups).flat_map(|it| &it.inputs).filter_map(Access::value) {
            *inside.entry(value).or_insert(0) += 1;
        }
        inside
    }

    fn nodes_of(&self, groups: [usize; 2]) -> impl Iterator<Item = &FlatNode> {
        groups.into_iter().flat_map(|it| &self.drafts[it].nodes).map(|&it| &self.flat.nodes[it])
    }
}
