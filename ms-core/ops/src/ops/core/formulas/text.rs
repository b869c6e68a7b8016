//! The text form of formulas, such as `float i32: exp 0; const float 1.5; add 2 3 -> 4`.
//!
//! The kinds of the operands come first (`float`, `int`, `bool`, or a dtype), then the instructions, then the result.
//! Values are numbered from zero: operands, then instructions. An instruction names its operands by these numbers.

use super::{Binary, Formula, Instruction, Kind, Unary, ValueId, number};
use crate::tensor::{DType, Scalar};
use ms_ir::Math;
use smallvec::SmallVec;
use std::fmt::{self, Display};

const UNARY: [(Unary, &str); 8] = [
    (Unary::Neg, "neg"),
    (Unary::Abs, "abs"),
    (Unary::Sqrt, "sqrt"),
    (Unary::Floor, "floor"),
    (Unary::Ceil, "ceil"),
    (Unary::Trunc, "trunc"),
    (Unary::Round, "round"),
    (Unary::Not, "not"),
];

const BINARY: [(Binary, &str); 16] = [
    (Binary::Add, "add"),
    (Binary::Sub, "sub"),
    (Binary::Mul, "mul"),
    (Binary::Div, "div"),
    (Binary::Rem, "rem"),
    (Binary::Min, "min"),
    (Binary::Max, "max"),
    (Binary::Eq, "eq"),
    (Binary::Ne, "ne"),
    (Binary::Lt, "lt"),
    (Binary::Le, "le"),
    (Binary::And, "and"),
    (Binary::Or, "or"),
    (Binary::Xor, "xor"),
    (Binary::Shl, "shl"),
    (Binary::Shr, "shr"),
];

fn name_in<T: PartialEq>(names: &[(T, &'static str)], op: T) -> &'static str {
    names.iter().find(|it| it.0 == op).map_or("", |it| it.1)
}

fn named_in<T: Copy>(names: &[(T, &str)], name: &str) -> Option<T> {
    names.iter().find(|it| it.1 == name).map(|it| it.0)
}

/// Returns the function with that name and arity.
fn math(name: &str, arity: usize) -> Option<Math> {
    Math::from_name(name).filter(|it| it.arity() == arity)
}

impl Unary {
    fn name(self) -> &'static str {
        match self {
            Self::Math(math) => math.name(),
            own => name_in(&UNARY, own),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        named_in(&UNARY, name).or_else(|| math(name, 1).map(Self::Math))
    }
}

impl Binary {
    fn name(self) -> &'static str {
        match self {
            Self::Math(math) => math.name(),
            own => name_in(&BINARY, own),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        named_in(&BINARY, name).or_else(|| math(name, 2).map(Self::Math))
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float => f.write_str("float"),
            Self::Int => f.write_str("int"),
            Self::Bool => f.write_str("bool"),
            Self::Of(dtype) => dtype.fmt(f),
        }
    }
}

impl Kind {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "float" => Some(Self::Float),
            "int" => Some(Self::Int),
            "bool" => Some(Self::Bool),
            name => DType::from_name(name).filter(|it| it.is_int() || it.compute() == *it).map(Self::Of),
        }
    }
}

impl Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, kind) in self.operands.iter().enumerate() {
            let space = if at > 0 { " " } else { "" };
            write!(f, "{space}{kind}")?;
        }
        for (at, instruction) in self.instructions.iter().enumerate() {
            f.write_str(if at > 0 { "; " } else { ": " })?;
            match *instruction {
                Instruction::Constant(kind, bits) => match number(kind, bits) {
                    Scalar::Float(it) => write!(f, "const {kind} {it:?}")?,
                    Scalar::UInt(it) => write!(f, "const {kind} {it}")?,
                    it => write!(f, "const {kind} {}", it.as_i64())?,
                },
                Instruction::Cast(to, a) => write!(f, "cast {to} {}", a.0)?,
                Instruction::Unary(op, a) => write!(f, "{} {}", op.name(), a.0)?,
                Instruction::Binary(op, a, b) => write!(f, "{} {} {}", op.name(), a.0, b.0)?,
                Instruction::Select(condition, a, b) => write!(f, "select {} {} {}", condition.0, a.0, b.0)?,
            }
        }
        write!(f, " -> {}", self.result.0)
    }
}

impl Formula {
    /// Parses a formula; `None` if the text is malformed or an instruction does not accept its operands.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, result) = text.split_once(" -> ")?;
        let (operands, instructions) = match rest.split_once(": ") {
            Some((operands, instructions)) => (operands, instructions.split("; ").map(instruction).collect()),
            None => (rest, Some(Vec::new())),
        };
        let formula =
            Self { operands: kinds(operands)?, instructions: instructions?, result: ValueId(result.parse().ok()?) };
        formula.kinds().map(|_| formula)
    }
}

fn kinds(text: &str) -> Option<SmallVec<[Kind; 3]>> {
    text.split(' ').map(Kind::from_name).collect()
}

/// Parses a constant of a numeric kind.
fn constant(kind: Kind, text: &str) -> Option<Instruction> {
    let value = match kind {
        Kind::Bool => return None,
        kind if kind.is_float() => Scalar::Float(text.parse().ok()?),
        Kind::Of(DType::U64) => Scalar::UInt(text.parse().ok()?),
        _ => Scalar::Int(text.parse().ok()?),
    };
    Some(Instruction::constant(kind, value))
}

fn instruction(text: &str) -> Option<Instruction> {
    let mut words = text.split(' ');
    let name = words.next()?;
    if name == "const" || name == "cast" {
        let (kind, of) = (Kind::from_name(words.next()?)?, words.next()?);
        let instruction = match name {
            "const" => constant(kind, of)?,
            _ => Instruction::Cast(kind, ValueId(of.parse().ok()?)),
        };
        return words.next().is_none().then_some(instruction);
    }
    let values = words.map(|it| it.parse().ok().map(ValueId)).collect::<Option<SmallVec<[ValueId; 3]>>>()?;
    match values[..] {
        [a] => Some(Instruction::Unary(Unary::from_name(name)?, a)),
        [a, b] => Some(Instruction::Binary(Binary::from_name(name)?, a, b)),
        [condition, a, b] if name == "select" => Some(Instruction::Select(condition, a, b)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        let texts = [
            "float -> 0",
            "float bool: exp 0; const float 1.5; add 2 3; select 1 4 0 -> 5",
            "float float: pow 0 1; lt 0 1; not 3; cast float 4; mul 2 5 -> 6",
            "float: const float inf; const float -0.0; const float 1e-300; const float NaN; max 0 1 -> 5",
            "int i8 u64: const int -7; rem 0 3; const u64 18446744073709551615; xor 2 5; cast i8 6; shl 1 7; not 8 -> 9",
            "f64 float i32: cast f64 1; cast f32 2; cast bool 4; eq 3 0; xor 5 6 -> 7",
        ];
        for text in texts {
            let formula = Formula::parse(text).expect(text);
            assert_eq!(formula.to_string(), text);
        }
        let refused = [
            "",
            "float",
            "float -> 1",
            "integer -> 0",
            "bf16 -> 0",
            "int: exp 0 -> 1",
            "int i32: add 0 1 -> 2",
            "float: rem 0 0 -> 1",
            "float: not 0 -> 1",
            "bool: neg 0 -> 1",
            "bool bool: lt 0 1 -> 2",
            "int: const int 1.5 -> 1",
            "int: const i64 9223372036854775808 -> 1",
            "int: const bool 1 -> 1",
            "int: cast 0 -> 1",
            "int: cast i32 1 -> 1",
            "float: exp -> 1",
            "float: exp 1 -> 1",
            "float: pow 0 -> 1",
            "float: exp 0 0 -> 1",
            "float bool: add 0 1 -> 2",
            "float: select 0 0 0 -> 1",
            "float: const float x -> 1",
            "float: sine 0 -> 1",
        ];
        for text in refused {
            assert_eq!(Formula::parse(text), None, "{text}");
        }
    }
}
