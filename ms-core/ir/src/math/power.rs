//! Powers.

use super::logarithm::log_double;
use super::{Format, exp, log, with_sign};
use crate::body::Expr;
use crate::data::DType;

/// `1 / sqrt(x)`; at most 1.5 ulp.
pub fn rsqrt(x: Expr<'_>) -> Expr<'_> {
    x.constant(1.0) / x.sqrt()
}

/// `x^y`, with the special cases of IEEE 754 (`pow`); at most 1 ulp (f32) or 2 ulp (f64).
///
/// f32 is computed in f64; for f64 the logarithm is a sum of two numbers.
pub fn pow<'s>(x: Expr<'s>, y: Expr<'s>) -> Expr<'s> {
    let a = x.abs();
    let magnitude = match Format::of(x) {
        Format::F32 => exp(y.cast(DType::F64) * log(a.cast(DType::F64))).cast(DType::F32),
        Format::F64 => pow_positive(a, y),
    };
    let magnitude = magnitude.replace(a.eq(1.0) & y.abs().eq(f64::INFINITY), 1.0);

    let whole = y.trunc().eq(y);
    let half = y * 0.5;
    let odd = whole & half.trunc().ne(half);
    let signed = magnitude.replace(odd, with_sign(magnitude, x));
    let outside = x.lt(0.0) & x.gt(f64::NEG_INFINITY) & !whole;
    let power = signed.replace(outside, f64::NAN).replace(x.ne(x), x);
    power.replace(y.eq(0.0) | x.eq(1.0), 1.0)
}

/// `a^y` of a nonnegative `a`, in f64.
fn pow_positive<'s>(a: Expr<'s>, y: Expr<'s>) -> Expr<'s> {
    let (ln, ln_low) = log_double(a);
    let exponent = y * ln;
    let exponent_low = y.mul_add(ln, -exponent) + y * ln_low;
    // Beyond this the power is zero or infinite, and the low part may be NaN.
    let exponent_low = exponent_low.replace(!exponent.abs().lt(800.0), 0.0);
    let power = exp(exponent);
    let power = power.replace(power.lt(f64::INFINITY), power.mul_add(exponent_low, power));
    let (zero, infinite) = (a.eq(0.0), a.eq(f64::INFINITY));
    let growing = y.gt(0.0).select(a, a.constant(1.0) / a);
    power.replace(zero | infinite, growing).replace(y.ne(y), y)
}

/// `x^y` of integers by repeated squaring; integers wrap. A negative power is the reciprocal
/// rounded towards zero, and zero for `x = 0`.
pub fn pow_int<'s>(x: Expr<'s>, y: Expr<'s>) -> Expr<'s> {
    let dtype = x.dtype();
    let bits = 8 * dtype.size() as i64 - dtype.is_signed_int() as i64;
    let (mut power, mut square) = (x.constant(1), x);
    for bit in 0..bits {
        power = power.replace(((y >> bit) & 1).ne(0), power * square);
        square = square * square;
    }
    if !dtype.is_signed_int() {
        return power;
    }
    let sign = x.replace((y & 1).eq(0), 1);
    let unit = x.eq(1) | x.eq(-1);
    power.replace(y.lt(0), unit.select(sign, 0))
}
