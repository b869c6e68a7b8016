//! The reference evaluation of formulas, in f64.

use super::{Binary, Formula, Instruction, Kind, Unary, ValueId};
use crate::ir::Math;
use crate::ops::primitive::erf::{erf_f64, erfc_f64};
use crate::tensor::Scalar;

/// The value of a formula at elements.
pub fn evaluate(formula: &Formula, operands: &[Scalar]) -> Scalar {
    let mut values: Vec<Scalar> = operands.to_vec();
    for instruction in &formula.instructions {
        let at = |it: ValueId| values[it.0 as usize];
        let next = match *instruction {
            Instruction::Constant(bits) => Scalar::Float(f64::from_bits(bits)),
            Instruction::Unary(op, a) => unary(op, at(a)),
            Instruction::Binary(op, a, b) => binary(op, at(a), at(b)),
            Instruction::Select(condition, a, b) => {
                if at(condition).as_bool() {
                    at(a)
                } else {
                    at(b)
                }
            }
        };
        values.push(next);
    }
    values[formula.result.0 as usize]
}

fn unary(op: Unary, a: Scalar) -> Scalar {
    let x = a.as_f64();
    Scalar::Float(match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sqrt => x.sqrt(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Trunc => x.trunc(),
        Unary::Round => x.round_ties_even(),
        Unary::Math(math) => function(math, x),
        Unary::Not => return Scalar::Bool(!a.as_bool()),
        Unary::ToFloat => f64::from(u8::from(a.as_bool())),
    })
}

fn function(math: Math, x: f64) -> f64 {
    match math {
        Math::Rsqrt => 1.0 / x.sqrt(),
        Math::Exp => x.exp(),
        Math::Expm1 => x.exp_m1(),
        Math::Log => x.ln(),
        Math::Log1p => x.ln_1p(),
        Math::Sin => x.sin(),
        Math::Cos => x.cos(),
        Math::Tan => x.tan(),
        Math::Asin => x.asin(),
        Math::Acos => x.acos(),
        Math::Atan => x.atan(),
        Math::Sinh => x.sinh(),
        Math::Cosh => x.cosh(),
        Math::Tanh => x.tanh(),
        Math::Asinh => x.asinh(),
        Math::Acosh => x.acosh(),
        Math::Atanh => x.atanh(),
        Math::Erf => erf_f64(x),
        Math::Erfc => erfc_f64(x),
        Math::Pow | Math::Atan2 => unreachable!("they have two operands"),
    }
}

fn binary(op: Binary, a: Scalar, b: Scalar) -> Scalar {
    let (x, y) = (a.as_f64(), b.as_f64());
    let nan = x.is_nan() || y.is_nan();
    match op {
        Binary::Add => Scalar::Float(x + y),
        Binary::Sub => Scalar::Float(x - y),
        Binary::Mul => Scalar::Float(x * y),
        Binary::Div => Scalar::Float(x / y),
        Binary::Min => Scalar::Float(if nan { f64::NAN } else { x.min(y) }),
        Binary::Max => Scalar::Float(if nan { f64::NAN } else { x.max(y) }),
        Binary::Math(Math::Pow) => Scalar::Float(x.powf(y)),
        Binary::Math(Math::Atan2) => Scalar::Float(x.atan2(y)),
        Binary::Math(_) => unreachable!("they have one operand"),
        Binary::Eq => Scalar::Bool(x == y),
        Binary::Ne => Scalar::Bool(x != y),
        Binary::Lt => Scalar::Bool(x < y),
        Binary::Le => Scalar::Bool(x <= y),
        Binary::And => Scalar::Bool(a.as_bool() && b.as_bool()),
        Binary::Or => Scalar::Bool(a.as_bool() || b.as_bool()),
    }
}

impl Kind {
    /// Whether an element is of this kind.
    pub fn is_of(self, dtype: crate::DType) -> bool {
        match self {
            Self::Float => dtype.is_float(),
            Self::Bool => dtype == crate::DType::Bool,
        }
    }
}
