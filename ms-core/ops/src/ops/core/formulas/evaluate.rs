//! Reference evaluation of formulas.

use super::{Binary, Dtypes, Formula, Instruction, Unary, ValueId, number};
use crate::ops::core::elementwise::wide;
use crate::ops::primitive::erf::{erf_f64, erfc_f64};
use crate::tensor::Scalar;
use ms_ir::Math;

/// Evaluates a formula on one element of each operand. Floats are computed in f64, and integers wrap to their dtypes.
pub fn evaluate(formula: &Formula, dtypes: Dtypes, operands: &[Scalar]) -> Scalar {
    let mut values: Vec<Scalar> = operands.to_vec();
    let mut kinds = formula.operands.to_vec();
    for instruction in &formula.instructions {
        let at = |it: ValueId| values[it.0 as usize];
        let kind = instruction.kind(&kinds).expect("the type rule accepted the formula");
        let dtype = dtypes.dtype(kind);
        let next = match *instruction {
            Instruction::Constant(kind, bits) => number(kind, bits),
            Instruction::Cast(_, a) if dtype.is_float() => Scalar::Float(at(a).as_f64()),
            Instruction::Cast(_, a) => at(a),
            Instruction::Unary(op, a) if kind.is_int() => Scalar::Int(integer(op, wide(at(a))) as i64),
            Instruction::Unary(op, a) => unary(op, at(a)),
            Instruction::Binary(op, a, b) if kinds[a.0 as usize].is_int() => integers(op, wide(at(a)), wide(at(b))),
            Instruction::Binary(op, a, b) => binary(op, at(a), at(b)),
            Instruction::Select(condition, a, b) => {
                if at(condition).as_bool() {
                    at(a)
                } else {
                    at(b)
                }
            }
        };
        values.push(if dtype.is_float() { next } else { next.convert(dtype) });
        kinds.push(kind);
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
    })
}

fn integer(op: Unary, x: i128) -> i128 {
    match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Not => !x,
        _ => unreachable!("they are functions of floats"),
    }
}

/// Applies a function to two integers, before wrapping.
fn integers(op: Binary, x: i128, y: i128) -> Scalar {
    let amount = u32::try_from(y).ok().filter(|it| *it < 64);
    let value = match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div => x.checked_div(y).unwrap_or(0),
        Binary::Rem => x.checked_rem(y).unwrap_or(0),
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl => amount.map_or(0, |it| x << it),
        Binary::Shr => x >> amount.unwrap_or(64),
        Binary::Eq => return Scalar::Bool(x == y),
        Binary::Ne => return Scalar::Bool(x != y),
        Binary::Lt => return Scalar::Bool(x < y),
        Binary::Le => return Scalar::Bool(x <= y),
        Binary::Math(_) => unreachable!("they are functions of floats"),
    };
    Scalar::Int(value as i64)
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
        Binary::Xor => Scalar::Bool(a.as_bool() != b.as_bool()),
        Binary::Rem | Binary::Shl | Binary::Shr => unreachable!("they are functions of integers"),
    }
}
