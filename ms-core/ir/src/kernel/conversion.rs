//! Converts between tensor dtypes, in kernel instructions.

use super::{BinaryOp, Compare, KernelBuilder, UnaryOp, Val};
use crate::data::{DType, Kind, Scalar};

impl KernelBuilder {
    /// Converts to another dtype. Each element becomes the result of
    /// [`Element::from_scalar`](crate::data::Element::from_scalar).
    ///
    /// A single [`Inst::Cast`](super::Inst::Cast) converts through the compute dtype. It would round twice to a narrow
    /// float, and wrap floats to narrow integers instead of saturating.
    pub fn cast(&mut self, value: Val, to: DType) -> Val {
        use DType::{BF16, F64, I32, I64, U32, U64};
        let from = self.ty(value);
        let passed = match (from, to) {
            _ if from == to => return value,
            (F64, _) if to.is_narrow_float() => self.rounded_to_odd(value),
            // Integers above 2^24, which f32 rounds, exceed the range of f16.
            (I32 | U32, BF16) => {
                let wide = self.convert(value, F64);
                self.rounded_to_odd(wide)
            }
            (I64 | U64, BF16) => {
                let held = self.held_by_f64(value);
                let wide = self.convert(held, F64);
                self.rounded_to_odd(wide)
            }
            _ if from.is_float() && to.kind() == Kind::Int && to.size() < 4 => self.saturated(value, to),
            _ => value,
        };
        self.convert(passed, to)
    }

    /// Rounds an f64 to f32 to odd: an inexact result is the neighbour with an odd last bit. Rounding that to sixteen
    /// bits equals rounding once (Boldo and Melquiond 2008, "Emulation of a FMA and Correctly Rounded Sums: Proved
    /// Algorithms Using Rounding to Odd").
    fn rounded_to_odd(&mut self, value: Val) -> Val {
        let near = self.convert(value, DType::F32);
        let back = self.convert(near, DType::F64);
        let inexact = self.compare(Compare::Ne, back, value);
        let (magnitude, wanted) = (self.unary(UnaryOp::Abs, back), self.unary(UnaryOp::Abs, value));
        let above = self.compare(Compare::Lt, wanted, magnitude);
        let bits = self.bitcast(near);
        let one = self.constant(1i32, DType::I32);
        let below = self.binary(BinaryOp::Sub, bits, one);
        let towards_zero = self.select(above, below, bits);
        let odd = self.binary(BinaryOp::Or, towards_zero, one);
        let kept = self.select(inexact, odd, bits);
        self.bitcast(kept)
    }

    /// Returns a 64-bit integer that f64 represents exactly and that rounds like this one to every format of at most 24
    /// bits. A sticky bit replaces the last twelve bits of a large one.
    fn held_by_f64(&mut self, value: Val) -> Val {
        let dtype = self.ty(value);
        let [tail, sticky, limit, zero] = [0xfff, 0x800, 1 << 53, 0].map(|it| self.constant(Scalar::UInt(it), dtype));
        let rest = self.constant(Scalar::Int(!0xfff), dtype);
        let cut = self.binary(BinaryOp::And, value, tail);
        let upper = self.binary(BinaryOp::And, value, rest);
        let marked = self.binary(BinaryOp::Or, upper, sticky);
        let lossless = self.compare(Compare::Eq, cut, zero);
        let gathered = self.select(lossless, upper, marked);
        // The least i64 is its own magnitude, which f64 represents exactly.
        let magnitude = if dtype == DType::I64 { self.unary(UnaryOp::Abs, value) } else { value };
        let small = self.compare(Compare::Lt, magnitude, limit);
        self.select(small, value, gathered)
    }

    /// Truncates a float to i32 and clamps it to the range of a narrower integer.
    fn saturated(&mut self, value: Val, to: DType) -> Val {
        let bits = 8 * to.size() as u32;
        let (least, largest) =
            if to.is_signed_int() { (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
        let wide = self.convert(value, DType::I32);
        let least = self.constant(least, DType::I32);
        let largest = self.constant(largest, DType::I32);
        let above = self.binary(BinaryOp::Max, wide, least);
        self.binary(BinaryOp::Min, above, largest)
    }
}
