//! Steps whose buffers are not placed in memory yet.

use super::emitted::Emitted;
use super::flat::{Access, Flat, NodeIndex, Origin, ValueIndex};
use crate::ir::Role;
use smallvec::SmallVec;

/// A step whose buffers are not placed in memory yet.
pub(super) enum Draft {
    Kernel(Box<Emitted>),
    /// A contraction with its epilogues, which compute with its result.
    Contraction(NodeIndex, Vec<Emitted>),
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
            Self::Contraction(node, epilogues) => {
                let (operands, result) = (operands(flat, *node), flat.nodes[*node].outputs[0]);
                let mut uses: SmallVec<[Use; 4]> = operands.iter().map(|&value| Use { value, over: None }).collect();
                for (at, emitted) in epilogues.iter().enumerate() {
                    let over = emitted.overwritten(flat, &kept(&operands, epilogues, at));
                    uses.extend(emitted.args.iter().zip(over).map(|(it, over)| Use { value: it.value, over }));
                }
                uses.retain(|it| it.value != result);
                uses
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
        let of = |it: &Emitted| it.args.iter().filter(|it| it.role == Role::Output).map(|it| it.value).collect();
        match self {
            Self::Kernel(it) => of(it),
            Self::Contraction(_, epilogues) => epilogues.iter().flat_map(of).collect(),
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
        let of = |emitted: &Emitted, kept: &[ValueIndex]| -> SmallVec<[OverInput; 4]> {
            let pairs = emitted.overwritable(flat, kept).into_iter();
            let value = |at: usize| emitted.args[at].value;
            pairs.filter_map(|(result, operand)| over(value(result), value(operand))).collect()
        };
        match self {
            Self::Kernel(emitted) => of(emitted, &[]),
            Self::Contraction(node, epilogues) => {
                let operands = operands(flat, *node);
                let of = |(at, it)| of(it, &kept(&operands, epilogues, at));
                epilogues.iter().enumerate().flat_map(of).collect()
            }
            Self::Whole(node) => {
                let updated = flat.updated(&flat.nodes[*node]).into_iter();
                updated.filter_map(|(result, operand)| over(result, operand)).collect()
            }
        }
    }
}

/// The values that no result of an epilogue may overwrite: `operands` of the contraction, and what its other epilogues
/// access, which run before or after it on a part of the results.
fn kept(operands: &[ValueIndex], epilogues: &[Emitted], at: usize) -> SmallVec<[ValueIndex; 8]> {
    let others = epilogues.iter().enumerate().filter(|it| it.0 != at).flat_map(|it| &it.1.args);
    operands.iter().copied().chain(others.map(|it| it.value)).collect()
}

/// The values of a contraction that no result of its epilogues may overwrite: a part of the results is written while
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
