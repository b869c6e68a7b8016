//! Methods of the numbers of kernels.

use super::number::{binary, select, unary, with_floats, with_integers};
use super::{Bool, Decides, F32, F64, Float, I8, I16, I32, I64, Int, U8, U16, U32, U64, Value};
use crate::ops::core::formulas::{Binary, Unary};
use ms_ir::Math;

/// Implements the methods of all numbers.
macro_rules! numbers {
    ($($ty:ident[$($number:ident)*])*) => {$(
        impl $ty {
            /// Returns the magnitude.
            #[must_use]
            pub fn abs(self) -> Self {
                unary(Unary::Abs, self)
            }

            /// Returns the smaller value, or NaN if either is NaN. Equal values share the gradient.
            #[must_use]
            pub fn min(self, other: impl Into<Self>) -> Self {
                binary(Binary::Min, self, other.into())
            }

            /// Returns the larger value, or NaN if either is NaN. Equal values share the gradient.
            #[must_use]
            pub fn max(self, other: impl Into<Self>) -> Self {
                binary(Binary::Max, self, other.into())
            }

            /// Clamps the value to `low..=high`; NaN stays NaN.
            #[must_use]
            pub fn clamp(self, low: impl Into<Self>, high: impl Into<Self>) -> Self {
                self.max(low).min(high)
            }

            /// Returns -1, 0 or 1 by the sign; 0 for NaN.
            #[doc(alias = "sign")]
            #[must_use]
            pub fn signum(self) -> Self {
                self.gt(0).to::<Self>() - self.lt(0).to::<Self>()
            }

            /// Whether the two are equal.
            #[must_use]
            pub fn eq(self, other: impl Into<Self>) -> Bool {
                binary(Binary::Eq, self, other.into())
            }

            /// Whether the two differ or one is NaN.
            #[must_use]
            pub fn ne(self, other: impl Into<Self>) -> Bool {
                binary(Binary::Ne, self, other.into())
            }

            /// Whether this is less.
            #[must_use]
            pub fn lt(self, other: impl Into<Self>) -> Bool {
                binary(Binary::Lt, self, other.into())
            }

            /// Whether this is less or equal.
            #[must_use]
            pub fn le(self, other: impl Into<Self>) -> Bool {
                binary(Binary::Le, self, other.into())
            }

            /// Whether this is greater.
            #[must_use]
            pub fn gt(self, other: impl Into<Self>) -> Bool {
                other.into().lt(self)
            }

            /// Whether this is greater or equal.
            #[must_use]
            pub fn ge(self, other: impl Into<Self>) -> Bool {
                other.into().le(self)
            }
        }
    )*};
}

with_floats! { numbers }
with_integers! { numbers }

/// Returns the product of `n` equal factors, by repeated squaring.
fn power<T: Value>(one: T, x: T, n: u32) -> T {
    let times = |a: T, b: T| binary::<T, T>(Binary::Mul, a, b);
    let (mut power, mut square, mut rest) = (None, x, n);
    while rest > 0 {
        if rest % 2 == 1 {
            power = Some(power.map_or(square, |it| times(it, square)));
        }
        rest /= 2;
        if rest > 0 {
            square = times(square, square);
        }
    }
    power.unwrap_or(one)
}

macro_rules! floats {
    ($($ty:ident[$($number:ident)*])*) => {$(
        impl $ty {
            /// Returns `x^y`; NaN for negative `x` unless `y` is an integer.
            #[doc(alias = "pow")]
            #[must_use]
            pub fn powf(self, other: impl Into<Self>) -> Self {
                binary(Binary::Math(Math::Pow), self, other.into())
            }

            /// Returns the angle of the point `(other, self)`.
            #[must_use]
            pub fn atan2(self, other: impl Into<Self>) -> Self {
                binary(Binary::Math(Math::Atan2), self, other.into())
            }

            /// Returns `1 / x`.
            #[must_use]
            pub fn recip(self) -> Self {
                1.0 / self
            }

            /// Returns `1 / (1 + e^-x)`.
            #[must_use]
            pub fn sigmoid(self) -> Self {
                ((self * 0.5).tanh() + 1.0) * 0.5
            }

            /// Returns `x^n`, by multiplication.
            #[must_use]
            pub fn powi(self, n: i32) -> Self {
                let power = power(Self::from(1.0), self, n.unsigned_abs());
                if n < 0 { power.recip() } else { power }
            }
        }

        unary_methods! { $ty }
    )*};
}

macro_rules! integers {
    ($($ty:ident[$($number:ident)*])*) => {$(
        impl $ty {
            /// Returns `x^n`, wrapping on overflow.
            #[must_use]
            pub fn pow(self, n: u32) -> Self {
                power(Self::from(1), self, n)
            }
        }
    )*};
}

macro_rules! unary_methods {
    ($ty:ident $($(#[$doc:meta])* $name:ident: $op:expr;)+) => {
        impl $ty {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self) -> Self {
                unary($op, self)
            }
        )+}
    };
    ($ty:ident) => {
        unary_methods! {
            $ty
            /// Returns the square root.
            sqrt: Unary::Sqrt;
            /// Returns `1 / sqrt(x)`.
            rsqrt: Unary::Math(Math::Rsqrt);
            /// Rounds down.
            floor: Unary::Floor;
            /// Rounds up.
            ceil: Unary::Ceil;
            /// Rounds towards zero.
            trunc: Unary::Trunc;
            /// Rounds to the nearest integer, ties to even.
            #[doc(alias = "round")]
            round_ties_even: Unary::Round;
            /// Returns `e^x`.
            exp: Unary::Math(Math::Exp);
            /// Returns `e^x - 1` without cancellation.
            #[doc(alias = "expm1")]
            exp_m1: Unary::Math(Math::Expm1);
            /// Returns the natural logarithm.
            #[doc(alias = "log")]
            ln: Unary::Math(Math::Log);
            /// Returns `ln(1 + x)` without cancellation.
            #[doc(alias = "log1p")]
            ln_1p: Unary::Math(Math::Log1p);
            /// Returns the sine of an angle in radians.
            sin: Unary::Math(Math::Sin);
            /// Returns the cosine of an angle in radians.
            cos: Unary::Math(Math::Cos);
            /// Returns the tangent of an angle in radians.
            tan: Unary::Math(Math::Tan);
            /// Returns the arc sine.
            asin: Unary::Math(Math::Asin);
            /// Returns the arc cosine.
            acos: Unary::Math(Math::Acos);
            /// Returns the arc tangent.
            atan: Unary::Math(Math::Atan);
            /// Returns the hyperbolic sine.
            sinh: Unary::Math(Math::Sinh);
            /// Returns the hyperbolic cosine.
            cosh: Unary::Math(Math::Cosh);
            /// Returns the hyperbolic tangent.
            tanh: Unary::Math(Math::Tanh);
            /// Returns the inverse hyperbolic sine.
            asinh: Unary::Math(Math::Asinh);
            /// Returns the inverse hyperbolic cosine.
            acosh: Unary::Math(Math::Acosh);
            /// Returns the inverse hyperbolic tangent.
            atanh: Unary::Math(Math::Atanh);
            /// Returns the error function.
            erf: Unary::Math(Math::Erf);
            /// Returns `1 - erf(x)`.
            erfc: Unary::Math(Math::Erfc);
        }
    };
}

with_floats! { floats }
with_integers! { integers }

impl Bool {
    /// Returns `then` where this is true, else `other`; one of the two may be a host number.
    #[must_use]
    pub fn select<A, B>(self, then: A, other: B) -> <Self as Decides<A, B>>::Output
    where
        Self: Decides<A, B>,
    {
        self.decide(|| then, || other)
    }

    /// Whether the two are equal.
    #[must_use]
    pub fn eq(self, other: Self) -> Self {
        binary(Binary::Eq, self, other)
    }

    /// Whether the two differ.
    #[must_use]
    pub fn ne(self, other: Self) -> Self {
        self ^ other
    }

    /// Returns `then` where this is true, else `other`.
    pub(super) fn choose<T: Value>(self, then: T, other: T) -> T {
        select(self, then, other)
    }
}
