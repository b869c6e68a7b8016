//! Lowering of formulas to kernel bodies.

use super::{Binary, Dtypes, Formula, Instruction, Unary, ValueId, number};
use ms_ir::body::{Expr, body_of};
use ms_ir::{KernelBuilder, Val};

/// Builds the body of a formula on elements of its operands. Narrow floats are computed in f32 and rounded once.
pub fn lower(formula: &Formula, builder: &mut KernelBuilder, operands: &[Val]) -> Val {
    let dtypes = Dtypes::of(formula.operands.iter().zip(operands).map(|(&kind, &it)| (kind, builder.ty(it))));
    let result = formula.kind().map_or(dtypes.float, |it| dtypes.dtype(it));
    let computed = |kind| {
        let dtype = dtypes.dtype(kind);
        if dtype.is_narrow_float() { dtype.compute() } else { dtype }
    };
    body_of(builder, operands, |operands| {
        let mut values: Vec<Expr<'_>> =
            operands.iter().zip(&formula.operands).map(|(it, &kind)| it.cast(computed(kind))).collect();
        for instruction in &formula.instructions {
            let at = |it: ValueId| values[it.0 as usize];
            let next = match *instruction {
                Instruction::Constant(kind, bits) => values[0].constant_of(number(kind, bits), computed(kind)),
                Instruction::Cast(to, a) => at(a).cast(computed(to)),
                Instruction::Unary(op, a) => unary(op, at(a)),
                Instruction::Binary(op, a, b) => binary(op, at(a), at(b)),
                Instruction::Select(condition, a, b) => at(condition).select(at(a), at(b)),
            };
            values.push(next);
        }
        values[formula.result.0 as usize].cast(result)
    })
}

fn unary(op: Unary, a: Expr<'_>) -> Expr<'_> {
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
    }
}

fn binary<'s>(op: Binary, a: Expr<'s>, b: Expr<'s>) -> Expr<'s> {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Rem => a % b,
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Math(math) => a.math2(math, b),
        Binary::Eq => a.eq(b),
        Binary::Ne => a.ne(b),
        Binary::Lt => a.lt(b),
        Binary::Le => a.le(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl => a << b,
        Binary::Shr => a >> b,
    }
}
