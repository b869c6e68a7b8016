//! Describes eager ops to backends that run ops themselves.

use ms_ir::Precision;
use ms_ir::data::{Attrs, DType, Op};

/// An op in eager execution, before it is lowered to a step. Its code serves all shapes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EagerOp {
    /// The op.
    pub op: Op,
    /// The attributes.
    pub attrs: Attrs,
    /// The operands.
    pub operands: Vec<OperandClass>,
    /// The precision.
    pub precision: Precision,
}

/// The class of an operand of an eager op.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperandClass {
    /// A row-major array.
    Dense(DType),
    /// Any other view of an array.
    Strided(DType),
    /// A host scalar. Only elementwise ops have such operands.
    Number(DType),
}
