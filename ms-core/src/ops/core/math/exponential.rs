//! The exponential, hyperbolic and logistic functions.

use super::coefficients::{EXP, SINH};
use super::{Format, LN_2, nearest, power_of_two_in, with_sign};
use crate::ir::Math;
use crate::ops::core::body::Expr;
use std::f64::consts::LOG2_E;

/// `e^x`; at most 1 ulp, subnormal results included.
pub fn exp(x: Expr<'_>) -> Expr<'_> {
    exp_halved(x, 0)
}

/// `e^x / 2^halvings`, without premature overflow.
fn exp_halved(x: Expr<'_>, halvings: i64) -> Expr<'_> {
    // Beyond these bounds the result is zero or infinite, as at the bounds.
    let (low, high) = Format::of(x).pick((-105.0, 91.0), (-747.0, 712.0));
    let x = x.max(low).min(high);
    let (n, exponent) = nearest(x, LOG2_E);
    let r = LN_2.subtract(x, n);
    let power = EXP.at(r).mul_add(r, 1.0).mul_add(r, 1.0);
    // In two steps, because 2^n itself may not be a normal number.
    let format = Format::of(x);
    let field = exponent << format.fraction_bits();
    let half = (exponent << (format.fraction_bits() - 1)) & (-1 << format.fraction_bits());
    power * power_of_two_in(half, 0) * power_of_two_in(field - half, -halvings)
}

/// `e^x - 1` without cancellation; at most 2 ulp.
pub fn expm1(x: Expr<'_>) -> Expr<'_> {
    let (low, high) = Format::of(x).pick((-18.0, 89.0), (-38.0, 710.0));
    let limited = x.max(low).min(high);
    let (n, exponent) = nearest(limited, LOG2_E);
    let r = LN_2.subtract(limited, n);
    let p = EXP.at(r).mul_add(r * r, r);
    // (2^n p + 2^n - 1), halved so that 2^n does not overflow before the result does.
    let scale = power_of_two_in(exponent << Format::of(x).fraction_bits(), -1);
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
    let decayed = (-x.abs()).math(Math::Exp);
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
