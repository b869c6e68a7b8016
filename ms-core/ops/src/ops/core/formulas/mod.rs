//! Formulas: functions of one element of each operand, as data.
//!
//! A formula is a list of instructions, each on earlier values. Its text form is the attribute of the primitive
//! [`FORMULA`](crate::ops::FORMULA) and identifies the node. Equal formulas therefore share code, in whatever program
//! they were written.

mod build;
mod derivative;
mod evaluate;
mod lower;
mod text;

pub use build::Builder;
pub use evaluate::evaluate;
pub use lower::lower;

use crate::tensor::{DType, Scalar};
use ms_ir::Math;
use smallvec::SmallVec;

/// A value of a formula: an operand, or the result of an instruction; operands come first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValueId(pub u32);

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A float in the common dtype of the `Float` operands; f32 if there are none.
    Float,
    /// An integer in the common dtype of the `Int` operands; i64 if there are none.
    Int,
    /// A boolean.
    Bool,
    /// A number of this dtype: an integer, f32 or f64.
    Of(DType),
}

/// The dtypes of [`Kind::Float`] and [`Kind::Int`] for given operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dtypes {
    /// The dtype of floats.
    pub float: DType,
    /// The dtype of integers.
    pub int: DType,
}

/// A function of elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Formula {
    /// The kinds of the operands.
    pub operands: SmallVec<[Kind; 3]>,
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// The value of the function.
    pub result: ValueId,
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Instruction {
    /// A number. The bits hold a float as f64, an integer as i64, and a u64 as u64.
    Constant(Kind, u64),
    /// A conversion with the semantics of the op `cast`.
    Cast(Kind, ValueId),
    /// A function of a value.
    Unary(Unary, ValueId),
    /// A function of two values.
    Binary(Binary, ValueId, ValueId),
    /// A selection: the second value if the first one is true, otherwise the third.
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
    /// Rounding down.
    Floor,
    /// Rounding up.
    Ceil,
    /// Rounding towards zero.
    Trunc,
    /// Rounding to the nearest integer, ties to even.
    Round,
    /// A transcendental function.
    Math(Math),
    /// The negation of a bool, or the inverted bits of an integer.
    Not,
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
    /// `a / b`; integer division truncates, and is zero for a zero divisor.
    Div,
    /// The remainder of the truncated integer quotient; zero for a zero divisor.
    Rem,
    /// The smaller number, NaN if either is NaN.
    Min,
    /// The larger number, NaN if either is NaN.
    Max,
    /// A transcendental function.
    Math(Math),
    /// Whether numbers are equal.
    Eq,
    /// Whether numbers differ, or one is NaN.
    Ne,
    /// Whether the first number is less.
    Lt,
    /// Whether the first number is less or equal.
    Le,
    /// The conjunction of bools, or the bitwise `and` of integers.
    And,
    /// The disjunction of bools, or the bitwise `or` of integers.
    Or,
    /// The exclusive disjunction of bools, or the bitwise `xor` of integers.
    Xor,
    /// An integer shifted left; zero when the amount is negative or not below the width.
    Shl,
    /// An arithmetic right shift; only sign bits when the amount is negative or not below the width.
    Shr,
}

impl Kind {
    /// Whether values of this kind are floats.
    pub fn is_float(self) -> bool {
        self == Self::Float || matches!(self, Self::Of(dtype) if dtype.is_float())
    }

    /// Whether values of this kind are integers.
    pub fn is_int(self) -> bool {
        self == Self::Int || matches!(self, Self::Of(dtype) if dtype.is_int())
    }

    /// Whether elements of this dtype are of this kind.
    pub fn is_of(self, dtype: DType) -> bool {
        match self {
            Self::Float => dtype.is_float(),
            Self::Int => dtype.is_int(),
            Self::Bool => dtype == DType::Bool,
            Self::Of(own) => dtype == own,
        }
    }
}

impl Dtypes {
    /// Determines the dtypes from operands of these kinds and dtypes.
    pub fn of(operands: impl IntoIterator<Item = (Kind, DType)>) -> Self {
        let (mut float, mut int) = (None, None);
        for (kind, dtype) in operands {
            match kind {
                Kind::Float => float = float.or(Some(dtype)),
                Kind::Int => int = int.or(Some(dtype)),
                Kind::Bool | Kind::Of(_) => {}
            }
        }
        Self { float: float.unwrap_or(DType::F32), int: int.unwrap_or(DType::I64) }
    }

    /// Returns the dtype of a value.
    pub fn dtype(self, kind: Kind) -> DType {
        match kind {
            Kind::Float => self.float,
            Kind::Int => self.int,
            Kind::Bool => DType::Bool,
            Kind::Of(dtype) => dtype,
        }
    }
}

impl Unary {
    /// Whether the function accepts a value of this kind. The result has the same kind.
    fn takes(self, kind: Kind) -> bool {
        match self {
            Self::Neg | Self::Abs => kind != Kind::Bool,
            Self::Not => !kind.is_float(),
            Self::Sqrt | Self::Floor | Self::Ceil | Self::Trunc | Self::Round | Self::Math(_) => kind.is_float(),
        }
    }
}

impl Binary {
    /// Whether the function accepts two values of this kind.
    fn takes(self, kind: Kind) -> bool {
        match self {
            Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Min | Self::Max | Self::Lt | Self::Le => {
                kind != Kind::Bool
            }
            Self::Eq | Self::Ne => true,
            Self::Math(_) => kind.is_float(),
            Self::And | Self::Or | Self::Xor => !kind.is_float(),
            Self::Rem | Self::Shl | Self::Shr => kind.is_int(),
        }
    }

    /// Returns the kind of the result.
    fn result(self, kind: Kind) -> Kind {
        if matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le) { Kind::Bool } else { kind }
    }
}

impl Instruction {
    /// Creates a constant.
    pub fn constant(kind: Kind, value: Scalar) -> Self {
        let bits = match value {
            value if kind.is_float() => value.as_f64().to_bits(),
            Scalar::UInt(value) => value,
            value => value.as_i64() as u64,
        };
        Self::Constant(kind, bits)
    }

    /// Returns the operands of the instruction.
    pub fn reads(&self) -> SmallVec<[ValueId; 3]> {
        match *self {
            Self::Constant(..) => SmallVec::new(),
            Self::Unary(_, a) | Self::Cast(_, a) => [a].into_iter().collect(),
            Self::Binary(_, a, b) => [a, b].into_iter().collect(),
            Self::Select(condition, a, b) => [condition, a, b].into_iter().collect(),
        }
    }

    /// Replaces the operands of the instruction.
    fn map(self, mut value: impl FnMut(ValueId) -> ValueId) -> Self {
        match self {
            Self::Constant(kind, bits) => Self::Constant(kind, bits),
            Self::Cast(kind, a) => Self::Cast(kind, value(a)),
            Self::Unary(op, a) => Self::Unary(op, value(a)),
            Self::Binary(op, a, b) => Self::Binary(op, value(a), value(b)),
            Self::Select(condition, a, b) => Self::Select(value(condition), value(a), value(b)),
        }
    }
}

impl Instruction {
    /// Returns the kind of the value, from the kinds of earlier values; `None` if the instruction does not accept them.
    pub(super) fn kind(&self, kinds: &[Kind]) -> Option<Kind> {
        let of = |it: ValueId| kinds.get(it.0 as usize).copied();
        match *self {
            Self::Constant(kind, _) => (kind != Kind::Bool).then_some(kind),
            Self::Cast(to, a) => of(a).map(|_| to),
            Self::Unary(op, a) => of(a).filter(|&it| op.takes(it)),
            Self::Binary(op, a, b) => {
                let kind = of(a).filter(|&it| op.takes(it) && of(b) == Some(it))?;
                Some(op.result(kind))
            }
            Self::Select(condition, a, b) => of(a).filter(|&it| of(condition) == Some(Kind::Bool) && of(b) == Some(it)),
        }
    }
}

/// Decodes the bits of a constant.
pub fn number(kind: Kind, bits: u64) -> Scalar {
    match kind {
        kind if kind.is_float() => Scalar::Float(f64::from_bits(bits)),
        Kind::Of(DType::U64) => Scalar::UInt(bits),
        _ => Scalar::Int(bits as i64),
    }
}

impl Formula {
    /// Returns the kind of each value; `None` if a value does not exist or an instruction does not accept its operands.
    pub fn kinds(&self) -> Option<Vec<Kind>> {
        let mut kinds = self.operands.to_vec();
        for instruction in &self.instructions {
            kinds.push(instruction.kind(&kinds)?);
        }
        ((self.result.0 as usize) < kinds.len()).then_some(kinds)
    }

    /// Returns the kind of the result.
    pub fn kind(&self) -> Option<Kind> {
        self.kinds()?.get(self.result.0 as usize).copied()
    }

    /// Returns the constant integers with their kinds.
    pub fn integers(&self) -> impl Iterator<Item = (Kind, Scalar)> + '_ {
        self.instructions.iter().filter_map(|it| match *it {
            Instruction::Constant(kind, bits) if kind.is_int() => Some((kind, number(kind, bits))),
            _ => None,
        })
    }
}
