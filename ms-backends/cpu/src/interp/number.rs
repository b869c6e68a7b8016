//! Scalar arithmetic as specified by [`ms_core::ir`], on the Rust types of compute dtypes. Bools are
//! bytes 0 and 1.

use ms_core::ir::BinaryOp;

/// Arithmetic of every compute dtype.
pub trait Number: Copy + PartialOrd {
    /// The lowest value: the identity of `max`.
    const LOWEST: Self;
    /// The highest value: the identity of `min`.
    const HIGHEST: Self;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// Sum; integers wrap, of bools the disjunction.
    fn add(self, other: Self) -> Self;
    /// Difference; integers wrap, of bools whether they differ.
    fn sub(self, other: Self) -> Self;
    /// Product; integers wrap, of bools the conjunction.
    fn mul(self, other: Self) -> Self;
    /// Quotient, see [`BinaryOp::Div`].
    fn div(self, other: Self) -> Self;
    /// The smaller, see [`BinaryOp::Min`].
    fn min(self, other: Self) -> Self;
    /// The larger, see [`BinaryOp::Max`].
    fn max(self, other: Self) -> Self;
    /// The negation; integers wrap.
    fn neg(self) -> Self;
    /// The magnitude; integers wrap.
    fn abs(self) -> Self;

    /// Whether any of some numbers is nan or -0, which integers never are: others are ordered, and alike if they are equal.
    #[inline(always)]
    fn has_nan_or_negative_zero(_of: &[Self]) -> bool {
        false
    }
}

/// Arithmetic of floats.
pub trait Float: Number {
    /// `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Correctly rounded square root.
    fn sqrt(self) -> Self;
    /// Rounded down.
    fn floor(self) -> Self;
    /// Rounded up.
    fn ceil(self) -> Self;
    /// Rounded towards zero.
    fn trunc(self) -> Self;
    /// Rounded to the nearest integer, halves to even.
    fn round_even(self) -> Self;
}

/// Arithmetic of integers and bools.
pub trait Int: Number {
    /// Remainder, see [`BinaryOp::Rem`].
    fn rem(self, other: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Bitwise complement; of bools the negation.
    fn not(self) -> Self;
    /// Shifted left, see [`BinaryOp::Shl`].
    fn shl(self, other: Self) -> Self;
    /// Shifted right, see [`BinaryOp::Shr`].
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
                // Equal values have one bit pattern unless they are zeros.
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
                // -0 is the least one as a signed integer. Nans are beyond infinity as signed integers, or beyond
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

/// `min` and `max` of integers and bools.
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

/// Bitwise ops of integers and bools.
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

/// Conversion between compute dtypes: floats are truncated and saturated to integers, integers wrap,
/// nonzero values are true.
pub trait Convert<To> {
    /// The converted value.
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

/// Returns whether a binary op is one of [`Number`]; the others are of [`Int`] only.
pub fn is_number_op(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Add | Sub | Mul | Div | Min | Max)
}
