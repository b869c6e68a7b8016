//! Describes the accesses of gathers.

use crate::lower::plan::IndexedAxis;
use ms_ir::data::{DType, Layout, Shape, Strides};

/// A gather over the axes of its result.
pub(in crate::lower) struct GatherWalk {
    /// The operand at index zero of the gathered axis. Its strides along the axes of the index are zero.
    pub operand: Layout,
    /// The index; its strides along the other axes are zero.
    pub index: Layout,
    /// The axis that the indices refer to.
    pub axis: Positions,
}

/// The operand axis that the indices of a gather refer to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::lower) struct Positions {
    /// Elements from one position to the next.
    pub stride: isize,
    /// The number of positions.
    pub extent: usize,
}

impl Positions {
    /// Converts the axis to the axis of a kernel's operand.
    pub fn of_dtype(self, dtype: DType) -> IndexedAxis {
        IndexedAxis { stride: self.stride as i64 * dtype.size() as i64, extent: self.extent }
    }
}

impl GatherWalk {
    /// Builds a gather along `axis` of an operand.
    pub fn new(operand: &Layout, index: &Layout, axis: usize) -> Self {
        let (sizes, steps) = (operand.shape(), operand.strides());
        let shape: Shape = sizes[..axis].iter().chain(index.shape()).chain(&sizes[axis + 1..]).copied().collect();
        let behind = shape.len() - axis - index.rank();
        let still = |count: usize| std::iter::repeat_n(0isize, count);
        let operand_steps = steps[..axis].iter().copied().chain(still(index.rank()));
        let operand_steps: Strides = operand_steps.chain(steps[axis + 1..].iter().copied()).collect();
        let index_steps: Strides = still(axis).chain(index.strides().iter().copied()).chain(still(behind)).collect();
        Self {
            operand: Layout::new(shape.clone(), operand_steps, operand.offset()),
            index: Layout::new(shape, index_steps, index.offset()),
            axis: Positions { stride: steps[axis], extent: sizes[axis] },
        }
    }
}
