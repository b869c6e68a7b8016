//! Steps whose buffers are not placed in memory yet.

use super::flat::{Access, Flat, NodeIndex, ValueIndex};
use super::nest::Nest;
use super::plan::{IndexedAxis, KernelId};
use crate::ir::Role;
use smallvec::SmallVec;
use std::rc::Rc;

/// A step whose buffers are not placed in memory yet.
pub(super) enum Draft {
    Kernel(Box<Emitted>),
    /// A product, a library op, or a node with graphs.
    Whole(NodeIndex),
}

/// The kernel of a group, and its arguments.
#[derive(PartialEq)]
pub(super) struct Emitted {
    pub kernel: KernelId,
    /// Whether the kernel has stages that are loops.
    pub has_loops: bool,
    pub nest: Rc<Nest>,
    /// The buffers, in the order of the kernel's params.
    pub args: Vec<Arg>,
}

/// A buffer of a call.
#[derive(PartialEq)]
pub(super) struct Arg {
    pub value: ValueIndex,
    pub role: Role,
    /// The first element, in elements.
    pub offset: usize,
    /// The axis of a value that is read at positions.
    pub axis: Option<IndexedAxis>,
    /// Whether the kernel traverses the whole value in the order of its domain.
    pub dense: bool,
}

/// A value that a step accesses.
pub(super) struct Use {
    pub value: ValueIndex,
    /// A value that the step reads and this one may overwrite.
    pub over: Option<ValueIndex>,
}

impl Draft {
    /// The values that the step accesses.
    pub fn uses(&self, flat: &Flat) -> SmallVec<[Use; 4]> {
        match self {
            Self::Kernel(emitted) => {
                let over = emitted.overwritten(flat);
                emitted.args.iter().zip(over).map(|(it, over)| Use { value: it.value, over }).collect()
            }
            Self::Whole(node) => {
                let node = &flat.nodes[*node];
                let updated = flat.updated(node);
                let over = |value| updated.iter().find(|it| it.0 == value).map(|it| it.1);
                let values = node.inputs.iter().filter_map(Access::value).chain(node.outputs.iter().copied());
                values.map(|value| Use { value, over: over(value) }).collect()
            }
        }
    }
}

impl Emitted {
    /// For each argument that is a result, a distinct operand that it may overwrite.
    fn overwritten(&self, flat: &Flat) -> SmallVec<[Option<ValueIndex>; 4]> {
        let operands = self.overwritable(flat);
        let made = |size: usize| {
            operands.iter().filter(move |it| it.1 == size && flat.producer(it.0).is_some()).map(|it| it.0)
        };
        // Each result takes a different operand.
        let mut results = 0..;
        let over = |arg: &Arg| {
            let at = if arg.role == Role::Output { results.next()? } else { return None };
            let size = if arg.dense { flat.values[arg.value].dtype.size() } else { return None };
            made(size).nth(at).or_else(|| made(size).next())
        };
        self.args.iter().map(over).collect()
    }

    /// Operands that dense results with elements of the same size may overwrite, and that size in bytes: both
    /// are traversed in the same order, and every element is read before it is written.
    pub fn overwritable(&self, flat: &Flat) -> SmallVec<[(ValueIndex, usize); 4]> {
        if self.has_loops {
            return SmallVec::new();
        }
        // An operand that is also read at positions is needed after other elements are written.
        let reads = |value| self.args.iter().filter(|it| it.role != Role::Output && it.value == value).count();
        let fits = |it: &&Arg| it.role == Role::Input && it.dense && reads(it.value) == 1;
        self.args.iter().filter(fits).map(|it| (it.value, flat.values[it.value].dtype.size())).collect()
    }
}
