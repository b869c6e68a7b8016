//! Forward-mode derivatives of formulas, as formulas.
//!
//! Tangents flow from the operand to the result. Where a formula selects a value, the derivative selects the tangent of
//! that value. An infinite or NaN derivative of the other value never reaches the result.

use super::{Binary, Builder, Formula, Instruction, Kind, Unary, ValueId};
use ms_ir::Math;
use std::f64::consts::FRAC_2_SQRT_PI;

impl Formula {
    /// Returns the vector-Jacobian product with respect to an operand, in the operand's kind.
    ///
    /// The gradient is appended as another operand, of the kind of the result. Returns `None` if the derivative is zero
    /// everywhere.
    pub fn derivative(&self, operand: usize) -> Option<Self> {
        let (mut out, slope) = self.derivative_with_operand(operand, self.kind())?;
        let gradient = out.operand(self.operands.len());
        let product = out.mul(gradient, slope);
        let product = out.cast(self.operands[operand], product);
        Some(out.finish(product))
    }

    /// Returns the derivative with respect to an operand, of the kind of the result; `None` if it is zero everywhere.
    pub fn slope(&self, operand: usize) -> Option<Self> {
        let (out, slope) = self.derivative_with_operand(operand, None)?;
        Some(out.finish(slope))
    }

    /// Builds the derivative in a copy of the formula that may have one more operand.
    fn derivative_with_operand(&self, operand: usize, more: Option<Kind>) -> Option<(Builder, ValueId)> {
        let (kind, result) = (self.operands[operand], self.kind()?);
        if !kind.is_float() || !result.is_float() {
            return None;
        }
        let mut out = Builder::new(self.operands.iter().copied().chain(more));
        let operands: Vec<ValueId> = (0..self.operands.len()).map(|it| out.operand(it)).collect();
        let values = out.inline(self, &operands);
        let mut tangents: Vec<Option<ValueId>> = vec![None; self.operands.len()];
        tangents[operand] = Some(out.constant(kind, 1.0));
        for (at, instruction) in self.instructions.iter().enumerate() {
            let value = values[self.operands.len() + at];
            let tangent = tangent(&mut out, instruction, value, &values, &tangents);
            tangents.push(tangent);
        }
        tangents[self.result.0 as usize].map(|slope| (out, slope))
    }
}

/// Returns the tangent of an instruction's value from the tangents of the values that it reads.
fn tangent(
    out: &mut Builder,
    instruction: &Instruction,
    value: ValueId,
    values: &[ValueId],
    tangents: &[Option<ValueId>],
) -> Option<ValueId> {
    let of = |it: ValueId| tangents[it.0 as usize];
    let at = |it: ValueId| values[it.0 as usize];
    match *instruction {
        Instruction::Constant(..) => None,
        Instruction::Cast(to, a) => of(a).filter(|_| to.is_float()).map(|t| out.cast(to, t)),
        Instruction::Unary(op, a) => {
            let (x, t) = (at(a), of(a)?);
            unary(out, op, x, value, t)
        }
        Instruction::Binary(op, a, b) => binary(out, op, [at(a), at(b)], value, [of(a), of(b)]),
        Instruction::Select(condition, a, b) => {
            if of(a).is_none() && of(b).is_none() {
                return None;
            }
            let zero = out.float_like(0.0, value);
            let (a, b) = (of(a).unwrap_or(zero), of(b).unwrap_or(zero));
            Some(out.select(at(condition), a, b))
        }
    }
}

/// Returns the tangent of `y`, the function of `x` with the tangent `t`.
fn unary(out: &mut Builder, op: Unary, x: ValueId, y: ValueId, t: ValueId) -> Option<ValueId> {
    Some(match op {
        Unary::Neg => out.neg(t),
        Unary::Abs => {
            let (zero, minus) = (out.float_like(0.0, x), out.neg(t));
            let (above, below) = (out.binary(Binary::Lt, zero, x), out.binary(Binary::Lt, x, zero));
            let rest = out.select(below, minus, zero);
            out.select(above, t, rest)
        }
        Unary::Sqrt => {
            let half = out.scale(t, 0.5);
            out.div(half, y)
        }
        Unary::Math(math) => {
            let slope = slope(out, math, x, y)?;
            out.mul(t, slope)
        }
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round | Unary::Not => return None,
    })
}

/// Returns the derivative of a function of one float at `x`, where its value is `y`.
fn slope(out: &mut Builder, math: Math, x: ValueId, y: ValueId) -> Option<ValueId> {
    let one = out.float_like(1.0, x);
    Some(match math {
        // -y³ / 2
        Math::Rsqrt => {
            let square = out.mul(y, y);
            let cube = out.mul(square, y);
            out.scale(cube, -0.5)
        }
        Math::Exp => y,
        Math::Expm1 => out.add(y, one),
        Math::Log => out.div(one, x),
        Math::Log1p => {
            let sum = out.add(x, one);
            out.div(one, sum)
        }
        Math::Sin => out.unary(Unary::Math(Math::Cos), x),
        Math::Cos => {
            let sine = out.unary(Unary::Math(Math::Sin), x);
            out.neg(sine)
        }
        // 1 + y²
        Math::Tan => {
            let square = out.mul(y, y);
            out.add(square, one)
        }
        // ±1 / sqrt(1 - x²)
        Math::Asin | Math::Acos => {
            let square = out.mul(x, x);
            let rest = out.sub(one, square);
            let slope = out.unary(Unary::Math(Math::Rsqrt), rest);
            if math == Math::Asin { slope } else { out.neg(slope) }
        }
        // 1 / (1 + x²)
        Math::Atan => {
            let square = out.mul(x, x);
            let sum = out.add(square, one);
            out.div(one, sum)
        }
        Math::Sinh => out.unary(Unary::Math(Math::Cosh), x),
        Math::Cosh => out.unary(Unary::Math(Math::Sinh), x),
        // 1 - y²
        Math::Tanh => {
            let square = out.mul(y, y);
            out.sub(one, square)
        }
        // 1 / sqrt(x² + 1)
        Math::Asinh => {
            let square = out.mul(x, x);
            let sum = out.add(square, one);
            out.unary(Unary::Math(Math::Rsqrt), sum)
        }
        // 1 / sqrt(x² - 1)
        Math::Acosh => {
            let square = out.mul(x, x);
            let rest = out.sub(square, one);
            out.unary(Unary::Math(Math::Rsqrt), rest)
        }
        // 1 / (1 - x²)
        Math::Atanh => {
            let square = out.mul(x, x);
            let rest = out.sub(one, square);
            out.div(one, rest)
        }
        // ±2 / sqrt(π) e^(-x²)
        Math::Erf | Math::Erfc => {
            let square = out.mul(x, x);
            let minus = out.neg(square);
            let bell = out.unary(Unary::Math(Math::Exp), minus);
            out.scale(bell, if math == Math::Erf { FRAC_2_SQRT_PI } else { -FRAC_2_SQRT_PI })
        }
        Math::Pow | Math::Atan2 => return None,
    })
}

/// Returns the tangent of `y`, the function of two values with these tangents.
fn binary(
    out: &mut Builder,
    op: Binary,
    [a, b]: [ValueId; 2],
    y: ValueId,
    [da, db]: [Option<ValueId>; 2],
) -> Option<ValueId> {
    if da.is_none() && db.is_none() {
        return None;
    }
    match op {
        Binary::Add => sum(out, da, db),
        Binary::Sub => {
            let db = db.map(|it| out.neg(it));
            sum(out, da, db)
        }
        Binary::Mul => {
            let (da, db) = (da.map(|it| out.mul(it, b)), db.map(|it| out.mul(a, it)));
            sum(out, da, db)
        }
        // (da - y db) / b
        Binary::Div => {
            let db = db.map(|it| {
                let share = out.mul(y, it);
                out.neg(share)
            });
            let all = sum(out, da, db)?;
            Some(out.div(all, b))
        }
        // Equal operands share the gradient.
        Binary::Min | Binary::Max => {
            let zero = out.float_like(0.0, y);
            let (da, db) = (da.unwrap_or(zero), db.unwrap_or(zero));
            let less = if op == Binary::Max { [b, a] } else { [a, b] };
            let first = out.binary(Binary::Lt, less[0], less[1]);
            let second = out.binary(Binary::Lt, less[1], less[0]);
            let both = out.add(da, db);
            let both = out.scale(both, 0.5);
            let rest = out.select(second, db, both);
            Some(out.select(first, da, rest))
        }
        Binary::Math(Math::Pow) => {
            let (da, db) = (da.map(|it| power_of_base(out, a, b, it)), db.map(|it| power_of_exponent(out, a, y, it)));
            sum(out, da, db)
        }
        // The angle of (x, y) with the first operand as y: (x dy - y dx) / (x² + y²).
        Binary::Math(Math::Atan2) => {
            let (first, second) = (out.mul(a, a), out.mul(b, b));
            let length = out.add(first, second);
            let da = da.map(|it| out.mul(b, it));
            let db = db.map(|it| {
                let share = out.mul(a, it);
                out.neg(share)
            });
            let all = sum(out, da, db)?;
            Some(out.div(all, length))
        }
        Binary::Math(_)
        | Binary::Rem
        | Binary::Eq
        | Binary::Ne
        | Binary::Lt
        | Binary::Le
        | Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::Shl
        | Binary::Shr => None,
    }
}

fn sum(out: &mut Builder, a: Option<ValueId>, b: Option<ValueId>) -> Option<ValueId> {
    match (a, b) {
        (Some(a), Some(b)) => Some(out.add(a, b)),
        (a, b) => a.or(b),
    }
}

/// Returns `b a^(b - 1) da`, and zero for `b = 0`, also where `a` is zero.
fn power_of_base(out: &mut Builder, a: ValueId, b: ValueId, da: ValueId) -> ValueId {
    let one = out.float_like(1.0, b);
    let lower = match out.float(b) {
        Some(exponent) => out.float_like(exponent - 1.0, b),
        None => out.sub(b, one),
    };
    let power = out.binary(Binary::Math(Math::Pow), a, lower);
    let slope = out.mul(b, power);
    let product = out.mul(slope, da);
    match out.float(b) {
        Some(exponent) if exponent != 0.0 => product,
        _ => {
            let zero = out.float_like(0.0, b);
            let none = out.binary(Binary::Eq, b, zero);
            out.select(none, zero, product)
        }
    }
}

/// Returns `y ln(a) db`, and zero for `a = 0`.
fn power_of_exponent(out: &mut Builder, a: ValueId, y: ValueId, db: ValueId) -> ValueId {
    let zero = out.float_like(0.0, a);
    let log = out.unary(Unary::Math(Math::Log), a);
    let slope = out.mul(y, log);
    let product = out.mul(slope, db);
    let none = out.binary(Binary::Eq, a, zero);
    out.select(none, zero, product)
}
