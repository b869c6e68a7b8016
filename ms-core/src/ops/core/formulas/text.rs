//! The text form: `float bool: exp 0; const 1.5; add 2 3 -> 4`.
//!
//! First what the operands are, then the instructions, each with the numbers of the values that it reads, then the
//! number of the result. Values are numbered from zero: operands, then instructions.

use super::{Binary, Formula, Instruction, Kind, Unary, ValueId};
use crate::ir::Math;
use smallvec::SmallVec;
use std::fmt::{self, Display};

const UNARY: [(Unary, &str); 9] = [
    (Unary::Neg, "neg"),
    (Unary::Abs, "abs"),
    (Unary::Sqrt, "sqrt"),
    (Unary::Floor, "floor"),
    (Unary::Ceil, "ceil"),
    (Unary::Trunc, "trunc"),
    (Unary::Round, "round"),
    (Unary::Not, "not"),
    (Unary::ToFloat, "float"),
];

const BINARY: [(Binary, &str); 12] = [
    (Binary::Add, "add"),
    (Binary::Sub, "sub"),
    (Binary::Mul, "mul"),
    (Binary::Div, "div"),
    (Binary::Min, "min"),
    (Binary::Max, "max"),
    (Binary::Eq, "eq"),
    (Binary::Ne, "ne"),
    (Binary::Lt, "lt"),
    (Binary::Le, "le"),
    (Binary::And, "and"),
    (Binary::Or, "or"),
];

fn name_in<T: PartialEq>(names: &[(T, &'static str)], op: T) -> &'static str {
    names.iter().find(|it| it.0 == op).map_or("", |it| it.1)
}

fn named_in<T: Copy>(names: &[(T, &str)], name: &str) -> Option<T> {
    names.iter().find(|it| it.1 == name).map(|it| it.0)
}

/// The function of that name and number of operands.
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

impl Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, kind) in self.operands.iter().enumerate() {
            let space = if at > 0 { " " } else { "" };
            write!(f, "{space}{}", if *kind == Kind::Float { "float" } else { "bool" })?;
        }
        for (at, instruction) in self.instructions.iter().enumerate() {
            f.write_str(if at > 0 { "; " } else { ": " })?;
            match *instruction {
                Instruction::Constant(bits) => write!(f, "const {:?}", f64::from_bits(bits))?,
                Instruction::Unary(op, a) => write!(f, "{} {}", op.name(), a.0)?,
                Instruction::Binary(op, a, b) => write!(f, "{} {} {}", op.name(), a.0, b.0)?,
                Instruction::Select(condition, a, b) => write!(f, "select {} {} {}", condition.0, a.0, b.0)?,
            }
        }
        write!(f, " -> {}", self.result.0)
    }
}

impl Formula {
    /// The formula of a text; `None` if the text is none, or an instruction does not fit its operands.
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
    let kind = |word: &str| match word {
        "float" => Some(Kind::Float),
        "bool" => Some(Kind::Bool),
        _ => None,
    };
    text.split(' ').map(kind).collect()
}

fn instruction(text: &str) -> Option<Instruction> {
    let mut words = text.split(' ');
    let name = words.next()?;
    if name == "const" {
        let number = words.next()?.parse().ok()?;
        return words.next().is_none().then(|| Instruction::constant(number));
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
            "float bool: exp 0; const 1.5; add 2 3; select 1 4 0 -> 5",
            "float float: pow 0 1; lt 0 1; not 3; float 4; mul 2 5 -> 6",
            "float: const inf; const -0.0; const 1e-300; const NaN; max 0 1 -> 5",
        ];
        for text in texts {
            let formula = Formula::parse(text).expect(text);
            assert_eq!(formula.to_string(), text);
        }
        let refused = [
            "",
            "float",
            "float -> 1",
            "int -> 0",
            "float: exp -> 1",
            "float: exp 1 -> 1",
            "float: pow 0 -> 1",
            "float: exp 0 0 -> 1",
            "float bool: add 0 1 -> 2",
            "float: select 0 0 0 -> 1",
            "float: const x -> 1",
            "float: sine 0 -> 1",
        ];
        for text in refused {
            assert_eq!(Formula::parse(text), None, "{text}");
        }
    }
}
