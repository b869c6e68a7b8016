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
use crate::tensor::{DType, Scalar};
use smallvec::SmallVec;

/// A value of a formula: an operand, or the result of an instruction; operands come first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValueId(pub u32);

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A float of the dtype of the operands that are such; f32 if there are none.
    Float,
    /// An integer of the dtype of the operands that are such; i64 if there are none.
    Int,
    /// A truth value.
    Bool,
    /// A number of this dtype: an integer, f32 or f64.
    Of(DType),
}

/// The dtypes of [`Kind::Float`] and [`Kind::Int`] on some operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dtypes {
    /// Of floats.
    pub float: DType,
    /// Of integers.
    pub int: DType,
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
    /// A number: the bits of a float as f64, those of an integer as i64 or, in u64, as u64.
    Constant(Kind, u64),
    /// Conversion, as by the op `cast`.
    Cast(Kind, ValueId),
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
    /// The opposite of a bool, the inverted bits of an integer.
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
    /// `a / b`; of integers truncated, and zero for a zero divisor.
    Div,
    /// The remainder of the truncated quotient of integers; zero for a zero divisor.
    Rem,
    /// The smaller, nan if either is nan.
    Min,
    /// The larger, nan if either is nan.
    Max,
    /// A transcendental function.
    Math(Math),
    /// Whether numbers are equal.
    Eq,
    /// Whether numbers differ, or one is nan.
    Ne,
    /// Whether the first number is less.
    Lt,
    /// Whether the first number is less or equal.
    Le,
    /// Whether both bools are true; the bits that both integers have.
    And,
    /// Whether a bool is true; the bits that an integer has.
    Or,
    /// Whether one bool is true; the bits that one integer has.
    Xor,
    /// An integer shifted left; zero when the amount is negative or not below the width.
    Shl,
    /// An integer shifted right, which keeps its sign; only signs when the amount is negative or not below the width.
    Shr,
}

impl Kind {
    /// Whether it is a float.
    pub fn is_float(self) -> bool {
        self == Self::Float || matches!(self, Self::Of(dtype) if dtype.is_float())
    }

    /// Whether it is an integer.
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
    /// Those of operands of these kinds and dtypes.
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

    /// The dtype of a value.
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
    /// Whether it is a function of such a value, whose result is of the same kind.
    fn takes(self, kind: Kind) -> bool {
        match self {
            Self::Neg | Self::Abs => kind != Kind::Bool,
            Self::Not => !kind.is_float(),
            Self::Sqrt | Self::Floor | Self::Ceil | Self::Trunc | Self::Round | Self::Math(_) => kind.is_float(),
        }
    }
}

impl Binary {
    /// Whether it is a function of two such values.
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

    /// What the result is.
    fn result(self, kind: Kind) -> Kind {
        if matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le) { Kind::Bool } else { kind }
    }
}

impl Instruction {
    /// A constant.
    pub fn constant(kind: Kind, value: Scalar) -> Self {
        let bits = match value {
            value if kind.is_float() => value.as_f64().to_bits(),
            Scalar::UInt(value) => value,
            value => value.as_i64() as u64,
        };
        Self::Constant(kind, bits)
    }

    /// The values that it reads.
    pub fn reads(&self) -> SmallVec<[ValueId; 3]> {
        match *self {
            Self::Constant(..) => SmallVec::new(),
            Self::Unary(_, a) | Self::Cast(_, a) => [a].into_iter().collect(),
            Self::Binary(_, a, b) => [a, b].into_iter().collect(),
            Self::Select(condition, a, b) => [condition, a, b].into_iter().collect(),
        }
    }

    /// It on other values.
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
    /// What its value is, by those of the values before it; `None` if it does not fit them.
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

/// The number that the bits of a constant are.
pub fn number(kind: Kind, bits: u64) -> Scalar {
    match kind {
        kind if kind.is_float() => Scalar::Float(f64::from_bits(bits)),
        Kind::Of(DType::U64) => Scalar::UInt(bits),
        _ => Scalar::Int(bits as i64),
    }
}

impl Formula {
    /// What each value is; `None` if there is no such value, or an instruction does not fit its operands.
    pub fn kinds(&self) -> Option<Vec<Kind>> {
        let mut kinds = self.operands.to_vec();
        for instruction in &self.instructions {
            kinds.push(instruction.kind(&kinds)?);
        }
        ((self.result.0 as usize) < kinds.len()).then_some(kinds)
    }

    /// What the result is.
    pub fn kind(&self) -> Option<Kind> {
        self.kinds()?.get(self.result.0 as usize).copied()
    }

    /// The constant integers, with what they are.
    pub fn integers(&self) -> impl Iterator<Item = (Kind, Scalar)> + '_ {
        self.instructions.iter().filter_map(|it| match *it {
            Instruction::Constant(kind, bits) if kind.is_int() => Some((kind, number(kind, bits))),
            _ => None,
        })
    }
}
