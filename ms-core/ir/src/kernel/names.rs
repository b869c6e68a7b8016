//! Defines the names in the text form of kernels.

use super::{BinaryOp, Compare, Inst, LaneAxis, Reducer, ReductionOrder, Role, Scope, StrideClass, UnaryOp};
use crate::Math;

/// Maps the variants of an enum to names and back.
macro_rules! names {
    ($($ty:ident { $($variant:ident = $name:literal,)* })*) => {$(
        impl $ty {
            /// All variants, in order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name in the text form.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the variant with a name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.name() == name)
            }
        }
    )*};
}

/// The instructions with a separate name. The others have the name of their op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Load,
    Gather,
    Store,
    Const,
    Index,
    Fma,
    Select,
    Cast,
    Reduce,
    Carry,
    While,
    Next,
}

/// The mnemonic of an instruction, which determines its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    Form(Form),
    Unary(UnaryOp),
    Binary(BinaryOp),
    Math(Math),
    Compare(Compare),
}

names! {
    Form {
        Load = "load",
        Gather = "gather",
        Store = "store",
        Const = "const",
        Index = "index",
        Fma = "fma",
        Select = "select",
        Cast = "cast",
        Reduce = "reduce",
        Carry = "carry",
        While = "while",
        Next = "next",
    }
    UnaryOp {
        Neg = "neg",
        Abs = "abs",
        Not = "not",
        Sqrt = "sqrt",
        Floor = "floor",
        Ceil = "ceil",
        Trunc = "trunc",
        RoundEven = "round_even",
        Bitcast = "bitcast",
    }
    BinaryOp {
        Add = "add",
        Sub = "sub",
        Mul = "mul",
        Div = "div",
        Rem = "rem",
        Min = "min",
        Max = "max",
        And = "and",
        Or = "or",
        Xor = "xor",
        Shl = "shl",
        Shr = "shr",
        MulWide = "mul_wide",
    }
    Compare {
        Eq = "eq",
        Ne = "ne",
        Lt = "lt",
        Le = "le",
    }
    Math {
        Rsqrt = "rsqrt",
        Exp = "exp",
        Expm1 = "expm1",
        Log = "log",
        Log1p = "log1p",
        Sin = "sin",
        Cos = "cos",
        Tan = "tan",
        Asin = "asin",
        Acos = "acos",
        Atan = "atan",
        Sinh = "sinh",
        Cosh = "cosh",
        Tanh = "tanh",
        Asinh = "asinh",
        Acosh = "acosh",
        Atanh = "atanh",
        Erf = "erf",
        Erfc = "erfc",
        Pow = "pow",
        Atan2 = "atan2",
    }
    Reducer {
        Sum = "sum",
        Prod = "prod",
        Max = "max",
        Min = "min",
        All = "all",
        Any = "any",
    }
    Role {
        Input = "in",
        Output = "out",
        Reloaded = "reloaded",
        Scratch = "scratch",
        Iota = "pos",
        Indexed = "indexed",
        Immediate = "imm",
    }
    StrideClass {
        Unit = "unit",
        Zero = "zero",
        Any = "any",
    }
    ReductionOrder {
        Lanes = "lanes",
        Blocks = "blocks",
    }
    LaneAxis {
        Parallel = "parallel",
        Reduced = "reduced",
    }
    Scope {
        Point = "point",
        Loop = "loop",
        Repeat = "repeat",
    }
}

impl Head {
    /// Returns the mnemonic of an instruction.
    pub(super) fn of(inst: &Inst) -> Self {
        match *inst {
            Inst::Load(_) => Self::Form(Form::Load),
            Inst::Gather(..) => Self::Form(Form::Gather),
            Inst::Store(..) => Self::Form(Form::Store),
            Inst::Const(_) => Self::Form(Form::Const),
            Inst::Index(_) => Self::Form(Form::Index),
            Inst::Unary(op, _) => Self::Unary(op),
            Inst::Binary(op, ..) => Self::Binary(op),
            Inst::Fma(..) => Self::Form(Form::Fma),
            Inst::Math(math, ..) => Self::Math(math),
            Inst::Compare(op, ..) => Self::Compare(op),
            Inst::Select(..) => Self::Form(Form::Select),
            Inst::Cast { .. } => Self::Form(Form::Cast),
            Inst::Reduce(..) => Self::Form(Form::Reduce),
            Inst::Carry(_) => Self::Form(Form::Carry),
            Inst::While(_) => Self::Form(Form::While),
            Inst::Next(..) => Self::Form(Form::Next),
        }
    }

    /// Returns the name in the text form.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Form(it) => it.name(),
            Self::Unary(it) => it.name(),
            Self::Binary(it) => it.name(),
            Self::Math(it) => it.name(),
            Self::Compare(it) => it.name(),
        }
    }

    /// Returns the mnemonic with a name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        (Form::from_name(name).map(Self::Form))
            .or_else(|| UnaryOp::from_name(name).map(Self::Unary))
            .or_else(|| BinaryOp::from_name(name).map(Self::Binary))
            .or_else(|| Math::from_name(name).map(Self::Math))
            .or_else(|| Compare::from_name(name).map(Self::Compare))
    }

    /// Returns whether instructions of this mnemonic have an effect instead of a result.
    pub(super) const fn is_statement(self) -> bool {
        matches!(self, Self::Form(Form::Store | Form::While | Form::Next))
    }

    /// Returns all mnemonics.
    #[cfg(test)]
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (Form::ALL.iter().copied().map(Self::Form))
            .chain(UnaryOp::ALL.iter().copied().map(Self::Unary))
            .chain(BinaryOp::ALL.iter().copied().map(Self::Binary))
            .chain(Math::ALL.iter().copied().map(Self::Math))
            .chain(Compare::ALL.iter().copied().map(Self::Compare))
    }
}
