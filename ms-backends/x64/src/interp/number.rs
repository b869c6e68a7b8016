//! Defines scalar arithmetic as specified by [`ms_ir`], on the Rust types of compute dtypes. Bools are the bytes
//! 0 and 1.

use ms_ir::BinaryOp;

/// The arithmetic of every compute dtype.
pub trait Number: Copy + PartialOrd {
    /// The least value, which is the identity of `max`.
    const LOWEST: Self;
    /// The greatest value, which is the identity of `min`.
    const HIGHEST: Self;
    /// The value zero.
    const ZERO: Self;
    /// The value one.
    const ONE: Self;

    /// Returns the sum. Integers wrap. For bools this is the disjunction.
    fn add(self, other: Self) -> Self;
    /// Returns the difference. Integers wrap. For bools this is the exclusive or.
    fn sub(self, other: Self) -> Self;
    /// Returns the product. Integers wrap. For bools this is the conjunction.
    fn mul(self, other: Self) -> Self;
    /// Returns the quotient, see [`BinaryOp::Div`].
    fn div(self, other: Self) -> Self;
    /// Returns the smaller value, see [`BinaryOp::Min`].
    fn min(self, other: Self) -> Self;
    /// Returns the larger value, see [`BinaryOp::Max`].
    fn max(self, other: Self) -> Self;
    /// Returns the negation. Integers wrap.
    fn neg(self) -> Self;
    /// Returns the magnitude. Integers wrap.
    fn abs(self) -> Self;

    /// Whether any value is NaN or -0. All other values are totally ordered, and equal values have equal bits. Integers
    /// always return `false`.
    #[inline(always)]
    fn has_nan_or_negative_zero(_of: &[Self]) -> bool {
        false
    }
}

/// The arithmetic of floats.
pub trait Float: Number {
    /// Returns `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Returns the correctly rounded square root.
    fn sqrt(self) -> Self;
    /// Rounds down.
    fn floor(self) -> Self;
    /// Rounds up.
    fn ceil(self) -> Self;
    /// Rounds towards zero.
    fn trunc(self) -> Self;
    /// Rounds to the nearest integer, ties to even.
    fn round_even(self) -> Self;
}

/// The arithmetic of integers and bools.
pub trait Int: Number {
    /// Returns the remainder, see [`BinaryOp::Rem`].
    fn rem(self, other: Self) -> Self;
    /// Returns the bitwise and.
    fn and(self, other: Self) -> Self;
    /// Returns the bitwise or.
    fn or(self, other: Self) -> Self;
    /// Returns the bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Returns the bitwise complement. For bools this is the negation.
    fn not(self) -> Self;
    /// Shifts left, see [`BinaryOp::Shl`].
    fn shl(self, other: Self) -> Self;
    /// Shifts right, see [`BinaryOp::Shr`].
    fn shr(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($ty:ident $int:ident)*) => {$(
        impl Number for $ty {
            const LOWEST: Self = $ty::NEG_INFINITY;
            const HIGHEST: Self = $ty::INFINITY;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                // Equal values have the same bits unless they are zeros.
                let equal = $ty::from_bits(self.to_bits() | other.to_bits());
                let less = if self < other { self } else { other };
                let ordered = if self == other { equal } else { less };
                if self.is_nan() | other.is_nan() { self + other } else { ordered }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let equal = $ty::from_bits(self.to_bits() & other.to_bits());
                let greater = if self > other { self } else { other };
                let ordered = if self == other { equal } else { greater };
                if self.is_nan() | other.is_nan() { self + other } else { ordered }
            }
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $ty::abs(self)
            }
            #[inline(always)]
            fn has_nan_or_negative_zero(of: &[Self]) -> bool {
                // -0 has the least bits as a signed integer. NaNs are above infinity as signed integers, or above
                // -infinity as unsigned ones.
                let start = ($ty::INFINITY.to_bits() as $int, $ty::INFINITY.to_bits() as $int, 0);
                let (least, most, below) = of.iter().fold(start, |(least, most, below), it| {
                    let bits = it.to_bits();
                    (Ord::min(least, bits as $int), Ord::max(most, bits as $int), Ord::max(below, bits))
                });
                least == $int::MIN || most > start.1 || below > $ty::NEG_INFINITY.to_bits()
            }
        }

        impl Float for $ty {
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $ty::sqrt(self)
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $ty::floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                $ty::ceil(self)
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                $ty::trunc(self)
            }
            #[inline(always)]
            fn round_even(self) -> Self {
                self.round_ties_even()
            }
        }
    )*};
}

floats! { f32 i32 f64 i64 }

/// Defines `min` and `max` of integers and bools.
macro_rules! ordered {
    () => {
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            if self < other { self } else { other }
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            if self > other { self } else { other }
        }
    };
}

/// Defines the bitwise ops of integers and bools.
macro_rules! bitwise {
    () => {
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            self & other
        }
        #[inline(always)]
        fn or(self, other: Self) -> Self {
            self | other
        }
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            self ^ other
        }
    };
}

macro_rules! ints {
    ($($ty:ident abs $abs:expr, fill $fill:expr;)*) => {$(
        impl Number for $ty {
            const LOWEST: Self = $ty::MIN;
            const HIGHEST: Self = $ty::MAX;
            const ZERO: Self = 0;
            const ONE: Self = 1;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            ordered!();
            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn abs(self) -> Self {
                let abs: fn(Self) -> Self = $abs;
                abs(self)
            }
        }

        impl Int for $ty {
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            bitwise!();
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
            #[inline(always)]
            fn shl(self, other: Self) -> Self {
                let shifted = self.wrapping_shl(other as u32);
                if (0..$ty::BITS as $ty).contains(&other) { shifted } else { 0 }
            }
            #[inline(always)]
            fn shr(self, other: Self) -> Self {
                let fill: fn(Self) -> Self = $fill;
                let shifted = self.wrapping_shr(other as u32);
                if (0..$ty::BITS as $ty).contains(&other) { shifted } else { fill(self) }
            }
        }
    )*};
}

ints! {
    i32 abs i32::wrapping_abs, fill |it| it >> 31;
    i64 abs i64::wrapping_abs, fill |it| it >> 63;
    u32 abs |it| it, fill |_| 0;
    u64 abs |it| it, fill |_| 0;
}

impl Number for u8 {
    const LOWEST: Self = 0;
    const HIGHEST: Self = 1;
    const ZERO: Self = 0;
    const ONE: Self = 1;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self | other
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self & other
    }
    ordered!();
    #[inline(always)]
    fn neg(self) -> Self {
        self
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self
    }
}

impl Int for u8 {
    #[inline(always)]
    fn rem(self, _: Self) -> Self {
        0
    }
    bitwise!();
    #[inline(always)]
    fn not(self) -> Self {
        self ^ 1
    }
    #[inline(always)]
    fn shl(self, other: Self) -> Self {
        if other == 0 { self } else { 0 }
    }
    #[inline(always)]
    fn shr(self, other: Self) -> Self {
        if other == 0 { self } else { 0 }
    }
}

/// Conversion between compute dtypes. Floats truncate and saturate to integers, integers wrap, and nonzero values
/// convert to true.
pub trait Convert<To> {
    /// Returns the converted value.
    fn convert(self) -> To;
}

macro_rules! conversions {
    ($($from:ident)*) => {$(
        conversions! { @from $from, f32 f64 i32 i64 u32 u64 }
        impl Convert<u8> for $from {
            #[inline(always)]
            fn convert(self) -> u8 {
                (self != <$from>::ZERO) as u8
            }
        }
    )*};
    (@from $from:ident, $($to:ident)*) => {$(
        impl Convert<$to> for $from {
            #[inline(always)]
            fn convert(self) -> $to {
                self as $to
            }
        }
    )*};
}

conversions! { f32 f64 i32 i64 u32 u64 u8 }

/// Returns whether a binary op belongs to [`Number`]. The others belong to [`Int`].
pub fn is_number_op(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Add | Sub | Mul | Div | Min | Max)
}

/// Evaluates an expression with `$t` as the Rust type of a compute dtype.
macro_rules! with_compute {
    ($dtype:expr, $t:ident => $body:expr) => {
        with_compute!(@match $dtype, $t => $body; F32 f32, F64 f64, I32 i32, I64 i64, U32 u32, U64 u64, Bool u8)
    };
    (@float $dtype:expr, $t:ident => $body:expr) => {
        with_compute!(@match $dtype, $t => $body; F32 f32, F64 f64)
    };
    (@int $dtype:expr, $t:ident => $body:expr) => {
        with_compute!(@match $dtype, $t => $body; I32 i32, I64 i64, U32 u32, U64 u64, Bool u8)
    };
    (@match $dtype:expr, $t:ident => $body:expr; $($variant:ident $ty:ident),*) => {
        match $dtype {
            $(ms_ir::data::DType::$variant => {
                type $t = $ty;
                $body
            })*
            other => unreachable!("no instruction of this kind computes in {other}"),
        }
    };
}
pub(super) use with_compute;
