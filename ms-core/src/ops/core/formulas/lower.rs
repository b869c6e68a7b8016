//! Formulas as bodies of kernels.

use super::{Binary, Formula, Instruction, Unary, ValueId};
use crate::ir::{KernelBuilder, Val};
use crate::ops::body::{Expr, wide_body_of};
use crate::tensor::DType;

/// Builds the body of a formula on elements of its operands. Narrow floats are computed in f32, and rounded once.
pub fn lower(formula: &Formula, builder: &mut KernelBuilder, operands: &[Val]) -> Val {
    wide_body_of(builder, operands, |operands| {
        let like = operands.iter().copied().find(|it| it.dtype().is_float()).expect("an operand is a float");
        let mut values: Vec<Expr<'_>> = operands.to_vec();
        for instruction in &formula.instructions {
            let at = |it: ValueId| values[it.0 as usize];
            let next = match *instruction {
                Instruction::Constant(bits) => like.constant(f64::from_bits(bits)),
                Instruction::Unary(op, a) => unary(op, at(a), like.dtype()),
                Instruction::Binary(op, a, b) => binary(op, at(a), at(b)),
                Instruction::Select(condition, a, b) => at(condition).select(at(a), at(b)),
            };
            values.push(next);
        }
        values[formula.result.0 as usize]
    })
}

fn unary<'s>(op: Unary, a: Expr<'s>, dtype: DType) -> Expr<'s> {
    match op {
        Unary::Neg => -a,
        Unary::Abs => a.abs(),
        Unary::Sqrt => a.sqrt(),
        Unary::Floor => a.floor(),
        Unary::Ceil => a.ceil(),
        Unary::Trunc => a.trunc(),
        Unary::Round => a.round_even(),
        Unary::Math(math) => a.math(math),
        Unary::Not => !a,
        Unary::ToFloat => a.cast(dtype),
    }
}

fn binary<'s>(op: Binary, a: Expr<'s>, b: Expr<'s>) -> Expr<'s> {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Math(math) => a.math2(math, b),
        Binary::Eq => a.eq(b),
        Binary::Ne => a.ne(b),
        Binary::Lt => a.lt(b),
        Binary::Le => a.le(b),
        Binary::And => a & b,
        Binary::Or => a | b,
    }
}
