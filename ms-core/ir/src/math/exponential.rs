//! The exponential, hyperbolic and logistic functions.

use super::coefficients::{EXP, SINH};
use super::{Format, LN_2, nearest_plus, negative, with_sign};
use crate::Math;
use crate::body::Expr;
use std::f64::consts::{self, LOG2_E};

/// `e^x`; at most 1 ulp, subnormal results included.
pub fn exp(x: Expr<'_>) -> Expr<'_> {
    exp_halved(x, 0)
}

/// `e^x / 2^halvings`, without premature overflow.
fn exp_halved(x: Expr<'_>, halvings: i64) -> Expr<'_> {
    let format = Format::of(x);
    // 2^n itself may overflow or be subnormal. It is the product of two normal factors near its root, whose exponent
    // fields have this sum.
    let of_one = 2 * format.bias() - halvings;
    // Beyond these bounds the result is zero or infinite, as at the bounds.
    let x = x.max(min_argument(of_one)).min(format.pick(91.0, 712.0));
    let (n, fields) = nearest_plus(x, LOG2_E, of_one);
    let both = fields << format.fraction_bits();
    let half = (fields << (format.fraction_bits() - 1)) & (-1 << format.fraction_bits());
    scaled_exp(x, n) * half.bitcast() * (both - half).bitcast()
}

/// `e^x` for nonpositive `x`, with the bits of [`exp`].
pub fn exp_nonpositive(x: Expr<'_>) -> Expr<'_> {
    let format = Format::of(x);
    // 2^n itself may be subnormal; 2^(n + lift) is normal.
    let lift = format.pick(64, 512);
    let of_one = format.bias() + lift;
    let x = x.max(min_argument(of_one));
    let (n, field) = nearest_plus(x, LOG2_E, of_one);
    scaled_exp(x, n) * (field << format.fraction_bits()).bitcast() * 2f64.powi(-lift as i32)
}

/// Returns an argument whose factor 2^n has the exponent field zero, where `field_of_one` is the exponent field of 2^0.
/// The exponential is zero there and below. Clamping avoids products that underflow, which some processors compute a
/// hundred times slower.
fn min_argument(field_of_one: i64) -> f64 {
    -field_of_one as f64 * consts::LN_2
}

/// `e^x / 2^n` for the nearest integer `n` to `x / ln 2`.
fn scaled_exp<'s>(x: Expr<'s>, n: Expr<'s>) -> Expr<'s> {
    let r = LN_2.subtract(x, n);
    EXP.at(r).mul_add(r, 1.0).mul_add(r, 1.0)
}

/// `e^x - 1` without cancellation; at most 2 ulp.
pub fn expm1(x: Expr<'_>) -> Expr<'_> {
    let format = Format::of(x);
    let (low, high) = format.pick((-18.0, 89.0), (-38.0, 710.0));
    let limited = x.max(low).min(high);
    let (n, field) = nearest_plus(limited, LOG2_E, format.bias() - 1);
    let r = LN_2.subtract(limited, n);
    let p = EXP.at(r).mul_add(r * r, r);
    // (2^n p + 2^n - 1), halved so that 2^n does not overflow before the result does.
    let scale = (field << format.fraction_bits()).bitcast();
    let general = scale.mul_add(p, scale - 0.5) * 2.0;
    general.replace(n.eq(0.0), p).replace(x.eq(0.0), x)
}

/// The hyperbolic tangent; at most 2.5 ulp.
pub fn tanh(x: Expr<'_>) -> Expr<'_> {
    let a = x.abs();
    let t = expm1(a + a);
    let small = a.lt(0.55);
    let quotient = small.select(t, 2.0) / (t + 2.0);
    with_sign(small.select(quotient, quotient.constant(1.0) - quotient), x)
}

/// `1 / (1 + e^-x)`; at most 2 ulp, also where the result is tiny.
pub fn sigmoid(x: Expr<'_>) -> Expr<'_> {
    let decayed = negative(x).math(Math::Exp);
    x.lt(0.0).select(decayed, 1.0) / (decayed + 1.0)
}

/// The hyperbolic sine; at most 2 ulp.
pub fn sinh(x: Expr<'_>) -> Expr<'_> {
    let a = x.abs();
    let z = a * a;
    let small = SINH.at(z).mul_add(z * a, a);
    let half = exp_halved(a, 1);
    with_sign(a.lt(1.0).select(small, half - half.constant(0.25) / half), x)
}

/// The hyperbolic cosine; at most 2 ulp.
pub fn cosh(x: Expr<'_>) -> Expr<'_> {
    let half = exp_halved(x.abs(), 1);
    half + half.constant(0.25) / half
}
