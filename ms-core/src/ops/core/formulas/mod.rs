//! Formulas: functions of one element of each operand, as data.
//!
//! A formula is a list of instructions, each on values before it. It is the attribute of the primitive
//! [`FORMULA`](crate::ops::FORMULA), in the text form of [`Formula`], which the identity of the node
//! consists of: equal formulas share code, in whatever program they were written.

mod build;
mod derivative;
mod evaluate;
mod lower;
mod text;

pub use build::Builder;
pub use evaluate::evaluate;
pub use lower::lower;

use crate::ir::Math;
use smallvec::SmallVec;

/// A value of a formula: an operand, or the result of an instruction; operands come first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValueId(pub u32);

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A float of the dtype of the op.
    Float,
    /// A truth value.
    Bool,
}

/// A function of elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Formula {
    /// What the operands are.
    pub operands: SmallVec<[Kind; 3]>,
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// The value of the function.
    pub result: ValueId,
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Instruction {
    /// A number, by its bits as f64.
    Constant(u64),
    /// A function of a value.
    Unary(Unary, ValueId),
    /// A function of two values.
    Binary(Binary, ValueId, ValueId),
    /// The second value if the first one is true, otherwise the third.
    Select(ValueId, ValueId, ValueId),
}

/// Functions of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unary {
    /// `-x`.
    Neg,
    /// The magnitude.
    Abs,
    /// The square root.
    Sqrt,
    /// Rounded down.
    Floor,
    /// Rounded up.
    Ceil,
    /// Rounded towards zero.
    Trunc,
    /// Rounded to the nearest integer, halves to even.
    Round,
    /// A transcendental function.
    Math(Math),
    /// The opposite of a bool.
    Not,
    /// One for true, zero for false.
    ToFloat,
}

/// Functions of two values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// The smaller, nan if either is nan.
    Min,
    /// The larger, nan if either is nan.
    Max,
    /// A transcendental function.
    Math(Math),
    /// Whether floats are equal.
    Eq,
    /// Whether floats differ, or one is nan.
    Ne,
    /// Whether the first float is less.
    Lt,
    /// Whether the first float is less or equal.
    Le,
    /// Whether both bools are true.
    And,
    /// Whether a bool is true.
    Or,
}

impl Unary {
    /// What the operand is.
    pub fn operand(self) -> Kind {
        match self {
            Self::Not | Self::ToFloat => Kind::Bool,
            _ => Kind::Float,
        }
    }

    /// What the result is.
    pub fn result(self) -> Kind {
        if self == Self::Not { Kind::Bool } else { Kind::Float }
    }
}

impl Binary {
    /// What the operands are.
    pub fn operand(self) -> Kind {
        if matches!(self, Self::And | Self::Or) { Kind::Bool } else { Kind::Float }
    }

    /// What the result is.
    pub fn result(self) -> Kind {
        match self {
            Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::And | Self::Or => Kind::Bool,
            _ => Kind::Float,
        }
    }
}

impl Instruction {
    /// A constant.
    pub fn constant(value: f64) -> Self {
        Self::Constant(value.to_bits())
    }

    /// The values that it reads.
    pub fn reads(&self) -> SmallVec<[ValueId; 3]> {
        match *self {
            Self::Constant(_) => SmallVec::new(),
            Self::Unary(_, a) => [a].into_iter().collect(),
            Self::Binary(_, a, b) => [a, b].into_iter().collect(),
            Self::Select(condition, a, b) => [condition, a, b].into_iter().collect(),
        }
    }

    /// It on other values.
    fn map(self, mut value: impl FnMut(ValueId) -> ValueId) -> Self {
        match self {
            Self::Constant(bits) => Self::Constant(bits),
            Self::Unary(op, a) => Self::Unary(op, value(a)),
            Self::Binary(op, a, b) => Self::Binary(op, value(a), value(b)),
            Self::Select(condition, a, b) => Self::Select(value(condition), value(a), value(b)),
        }
    }
}

impl Formula {
    /// What a value is; `None` if there is no such value, or an instruction does not fit its operands.
    pub fn kinds(&self) -> Option<Vec<Kind>> {
        let mut kinds = self.operands.to_vec();
        for instruction in &self.instructions {
            let kind = |it: ValueId| kinds.get(it.0 as usize).copied();
            let next = match *instruction {
                Instruction::Constant(_) => Some(Kind::Float),
                Instruction::Unary(op, a) => (kind(a)? == op.operand()).then(|| op.result()),
                Instruction::Binary(op, a, b) => {
                    (kind(a)? == op.operand() && kind(b)? == op.operand()).then(|| op.result())
                }
                Instruction::Select(condition, a, b) => {
                    (kind(condition)? == Kind::Bool && kind(a)? == kind(b)?).then_some(kind(a)?)
                }
            };
            kinds.push(next?);
        }
        ((self.result.0 as usize) < kinds.len()).then_some(kinds)
    }

    /// What the result is.
    pub fn kind(&self) -> Option<Kind> {
        self.kinds()?.get(self.result.0 as usize).copied()
    }
}
