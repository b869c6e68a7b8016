//! Analyses the signs of a kernel's floats.

use super::{BinaryOp, Inst, Kernel, Reducer, UnaryOp, Val};
use crate::Math;
use crate::data::Scalar;

/// The sign of a float that is not NaN. Both zeros have either sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// At least zero.
    NotNegative,
    /// At most zero.
    NotPositive,
    /// Unknown.
    Unknown,
}

impl Sign {
    fn negated(self) -> Self {
        match self {
            Self::NotNegative => Self::NotPositive,
            Self::NotPositive => Self::NotNegative,
            Self::Unknown => Self::Unknown,
        }
    }

    /// Returns the sign of a product or a quotient.
    fn times(self, other: Self) -> Self {
        match self {
            Self::NotNegative => other,
            Self::NotPositive => other.negated(),
            Self::Unknown => Self::Unknown,
        }
    }

    /// Returns the sign of either of two numbers, or of their sum.
    fn or(self, other: Self) -> Self {
        if self == other { self } else { Self::Unknown }
    }
}

/// The maximum depth of operands that are examined.
const DEPTH: usize = 8;

impl Kernel {
    /// Returns the sign of a value, as far as its next few operands determine it.
    pub fn sign(&self, val: Val) -> Sign {
        self.sign_within(val, DEPTH)
    }

    fn sign_within(&self, val: Val, depth: usize) -> Sign {
        let Some(depth) = depth.checked_sub(1) else { return Sign::Unknown };
        if !self.ty(val).is_float() {
            return Sign::Unknown;
        }
        let of = |it: Val| self.sign_within(it, depth);
        match self.insts[val.0 as usize] {
            Inst::Const(bits) => match Scalar::from_bits(bits, self.ty(val)).as_f64() {
                it if it >= 0.0 => Sign::NotNegative,
                it if it <= 0.0 => Sign::NotPositive,
                _ => Sign::Unknown,
            },
            Inst::Unary(UnaryOp::Abs | UnaryOp::Sqrt, _) | Inst::Math(Math::Exp, ..) => Sign::NotNegative,
            Inst::Unary(UnaryOp::Neg, x) => of(x).negated(),
            Inst::Unary(UnaryOp::Bitcast, bits) => self.sign_of_bits(bits),
            Inst::Binary(BinaryOp::Mul, x, y) if x == y => Sign::NotNegative,
            Inst::Binary(BinaryOp::Mul | BinaryOp::Div, x, y) => of(x).times(of(y)),
            Inst::Binary(BinaryOp::Add, x, y) | Inst::Select(_, x, y) => of(x).or(of(y)),
            Inst::Binary(BinaryOp::Sub, x, y) => of(x).or(of(y).negated()),
            Inst::Binary(BinaryOp::Max, x, y) => match (of(x), of(y)) {
                (Sign::NotNegative, _) | (_, Sign::NotNegative) => Sign::NotNegative,
                (x, y) => x.or(y),
            },
            Inst::Binary(BinaryOp::Min, x, y) => match (of(x), of(y)) {
                (Sign::NotPositive, _) | (_, Sign::NotPositive) => Sign::NotPositive,
                (x, y) => x.or(y),
            },
            Inst::Cast { value, .. } => of(value),
            // An empty sum is zero.
            Inst::Reduce(Reducer::Sum, x) => of(x),
            _ => Sign::Unknown,
        }
    }

    /// Returns the sign of a float with these bits, if they are a disjunction with the sign bit.
    fn sign_of_bits(&self, bits: Val) -> Sign {
        let Inst::Binary(BinaryOp::Or, x, y) = self.insts[bits.0 as usize] else { return Sign::Unknown };
        let top = 8 * self.ty(bits).size() - 1;
        let is_set = |it: Val| matches!(self.insts[it.0 as usize], Inst::Const(bits) if bits >> top & 1 == 1);
        if is_set(x) || is_set(y) { Sign::NotPositive } else { Sign::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_follow_from_instructions() {
        for (value, want) in [
            ("v = neg x", Sign::Unknown),
            ("a = abs x v = neg a", Sign::NotPositive),
            ("s = mul x, x h = const f32 -0.5 v = mul s, h", Sign::NotPositive),
            ("a = abs x s = sqrt x n = neg s v = sub n, a", Sign::NotPositive),
            ("a = abs x s = sqrt x v = sub s, a", Sign::Unknown),
            ("z = const f32 0.0 v = max x, z", Sign::NotNegative),
            ("z = const f32 -1.0 v = min x, z", Sign::NotPositive),
            ("z = const f32 -1.0 v = max x, z", Sign::Unknown),
            ("a = abs x o = const f32 1.0 d = add a, o v = div x, d", Sign::Unknown),
            ("a = abs x o = const f32 1.0 d = add a, o n = neg o v = div n, d", Sign::NotPositive),
            ("b = bitcast x m = const i32 -2147483648 o = or b, m v = bitcast o", Sign::NotPositive),
            ("b = bitcast x m = const i32 1 o = or b, m v = bitcast o", Sign::Unknown),
            ("v = const f32 nan", Sign::Unknown),
            ("i = cast x to i32 v = cast i to f32", Sign::Unknown),
            ("a = abs x w = cast a to f64 n = neg w v = cast n to f32", Sign::NotPositive),
        ] {
            let text = format!(
                "kernel par=0 lanes=parallel seq=0 in %x: f32 unit out %y: f32 unit
                 point: x = load %x {value} store %y, v"
            );
            let kernel = Kernel::parse(&text).expect(&text);
            kernel.check().expect(&text);
            let Some(Inst::Store(_, val)) = kernel.insts.last().copied() else { panic!("{text}") };
            assert_eq!(kernel.sign(val), want, "{value}");
        }
    }
}
