//! Finds horizontally fusible elementwise nodes: siblings that read the same elements.

use crate::lower::rewrites::flat::{Access, Flat, Kind, NodeIndex, ValueIndex};
use ms_ir::data::{Attrs, Op};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Elementwise nodes with attributes, by op and operands. Nodes that differ only in their attributes are results of one
/// function, so one kernel computes them all and reads each element once.
#[derive(Default)]
pub(in crate::lower) struct Siblings(FxHashMap<(Op, SmallVec<[ValueIndex; 4]>), NodeIndex>);

impl Siblings {
    /// Returns the last node before `index` that differs from it only in its attributes.
    pub fn of(&mut self, flat: &Flat, index: NodeIndex) -> Option<NodeIndex> {
        let node = &flat.nodes[index];
        let Kind::Map(op) = node.kind else { return None };
        if node.attrs == Attrs::none() {
            return None;
        }
        let operands = node.inputs.iter().filter_map(Access::value).collect();
        let other = self.0.insert((op, operands), index)?;
        (flat.nodes[other].inputs == node.inputs).then_some(other)
    }
}
