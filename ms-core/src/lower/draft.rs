//! Steps whose buffers are not placed in memory yet.

use super::emitted::Emitted;
use super::flat::{Access, Flat, NodeIndex, Origin, ValueIndex};
use crate::ir::Role;
use smallvec::SmallVec;

/// A step whose buffers are not placed in memory yet.
pub(super) enum Draft {
    Kernel(Box<Emitted>),
    /// A contraction with its epilogue, which reads its result.
    Contraction(NodeIndex, Box<Emitted>),
    /// A product, a library op, or a node with graphs.
    Whole(NodeIndex),
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
                let over = emitted.overwritten(flat, &[]);
                emitted.args.iter().zip(over).map(|(it, over)| Use { value: it.value, over }).collect()
            }
            Self::Contraction(node, emitted) => {
                let operands = operands(flat, *node);
                let (result, over) = (flat.nodes[*node].outputs[0], emitted.overwritten(flat, &operands));
                let args = emitted.args.iter().zip(over).map(|(it, over)| Use { value: it.value, over });
                let operands = operands.iter().map(|&value| Use { value, over: None });
                operands.chain(args).filter(|it| it.value != result).collect()
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

    /// The values that the step writes.
    pub fn results<'a>(&'a self, flat: &'a Flat) -> SmallVec<[ValueIndex; 4]> {
        match self {
            Self::Kernel(it) | Self::Contraction(_, it) => {
                it.args.iter().filter(|it| it.role == Role::Output).map(|it| it.value).collect()
            }
            Self::Whole(node) => flat.nodes[*node].outputs.iter().copied().collect(),
        }
    }

    /// The results that the step may write over inputs of the routine, as far as only this step reads and
    /// writes them.
    pub fn over_inputs(&self, flat: &Flat) -> SmallVec<[OverInput; 4]> {
        let over = |result: ValueIndex, operand: ValueIndex| match flat.values[operand].origin {
            Origin::Input(input) => Some(OverInput { result, operand, input }),
            Origin::Constant(_) | Origin::Node(_) | Origin::Position => None,
        };
        let (emitted, kept) = match self {
            Self::Kernel(emitted) => (emitted, SmallVec::new()),
            Self::Contraction(node, emitted) => (emitted, operands(flat, *node)),
            Self::Whole(node) => {
                let updated = flat.updated(&flat.nodes[*node]).into_iter();
                return updated.filter_map(|(result, operand)| over(result, operand)).collect();
            }
        };
        let pairs = emitted.overwritable(flat, &kept).into_iter();
        let value = |at: usize| emitted.args[at].value;
        pairs.filter_map(|(result, operand)| over(value(result), value(operand))).collect()
    }
}

/// The values of a contraction that no result of its epilogue may overwrite: a part of the results is written while
/// other parts are summed. The result is in no memory.
fn operands(flat: &Flat, contraction: NodeIndex) -> SmallVec<[ValueIndex; 4]> {
    let node = &flat.nodes[contraction];
    node.inputs.iter().filter_map(Access::value).chain(node.outputs.iter().copied()).collect()
}

/// A result that a step may write over an input of the routine.
pub(super) struct OverInput {
    pub result: ValueIndex,
    /// The value of the input.
    pub operand: ValueIndex,
    pub input: u32,
}
