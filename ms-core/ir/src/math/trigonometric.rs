//! Trigonometric functions and their inverses.

use super::coefficients::{ASIN, ATAN, COS, SIN};
use super::{Format, Parts, nearest, with_sign};
use crate::body::Expr;
use crate::data::DType;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

/// `pi / 2`; only f64 arguments are reduced by it.
const HALF_PI: Parts = Parts { f32: &[], f64: &[FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33] };

/// The rounding errors of `pi / 2`, `pi / 4` and `pi`, by format.
const HALF_PI_REST: (f64, f64) = (-4.371139e-8, 6.123233995736766e-17);

/// Subtracts the nearest multiple of `pi / 2` from `x`. Also returns an integer with the low bits of the multiple's
/// number.
///
/// The reduction is done in f64 with three parts of `pi / 2`, and is valid for `|x| < 2^51`. Beyond, the result is
/// meaningless, but stays within `pi / 4`.
fn reduce(x: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    let wide = x.cast(DType::F64);
    let (n, quadrant) = nearest(wide, FRAC_2_PI);
    let r = HALF_PI.subtract(wide, n);
    // `2 / pi` is rounded, so the multiple may be a neighbour of the nearest one.
    let (m, neighbour) = nearest(r, FRAC_2_PI);
    let r = HALF_PI.subtract(r, m).max(-FRAC_PI_4).min(FRAC_PI_4);
    (r.cast(x.dtype()), quadrant + neighbour)
}

/// Sine and cosine of `|r| <= pi / 4`.
fn sin_cos_reduced(r: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    let z = r * r;
    let sin = SIN.at(z).mul_add(z * r, r);
    let half = z * 0.5;
    let head = half.constant(1.0) - half;
    let lost = (head.constant(1.0) - head) - half;
    (sin, head + COS.at(z).mul_add(z * z, lost))
}

/// The sine at `r` plus `quadrant` quadrants.
fn sin_at<'s>(r: Expr<'s>, quadrant: Expr<'s>) -> Expr<'s> {
    let (sin, cos) = sin_cos_reduced(r);
    let magnitude = (quadrant & 1).ne(0).select(cos, sin);
    magnitude.replace((quadrant & 2).ne(0), -magnitude)
}

/// The sine; at most 1.5 ulp (f32), 2 ulp (f64) for `|x| < 2^51`, NaN at infinities.
pub fn sin(x: Expr<'_>) -> Expr<'_> {
    let (r, quadrant) = reduce(x);
    sin_at(r, quadrant).replace(x.eq(0.0), x)
}

/// The cosine; at most 1.5 ulp (f32), 2 ulp (f64) for `|x| < 2^51`, NaN at infinities.
pub fn cos(x: Expr<'_>) -> Expr<'_> {
    let (r, quadrant) = reduce(x);
    sin_at(r, quadrant + 1)
}

/// The tangent; at most 3 ulp for `|x| < 2^51`, NaN at infinities.
pub fn tan(x: Expr<'_>) -> Expr<'_> {
    let (r, quadrant) = reduce(x);
    let (sin, cos) = sin_cos_reduced(r);
    let odd = (quadrant & 1).ne(0);
    (odd.select(-cos, sin) / odd.select(sin, cos)).replace(x.eq(0.0), x)
}

/// The arc tangent of a nonnegative number.
fn atan_positive(a: Expr<'_>) -> Expr<'_> {
    // Above tan(pi/8) the argument is rotated by pi/4, above tan(3 pi/8) by pi/2.
    let (large, medium) = (a.gt(2.414213562373095), a.gt(0.41421356237309503));
    let numerator = large.select(a.constant(-1.0), medium.select(a - 1.0, a));
    let denominator = large.select(a, medium.select(a + 1.0, 1.0));
    let t = numerator / denominator;
    let z = t * t;
    let turned = ATAN.at(z).mul_add(z * t, t);
    let rest = pick_rest(a);
    let high = large.select(a.constant(FRAC_PI_2), medium.select(a.constant(FRAC_PI_4), 0.0));
    let low = large.select(a.constant(rest), medium.select(a.constant(rest / 2.0), 0.0));
    high + (turned + low)
}

fn pick_rest(x: Expr<'_>) -> f64 {
    Format::of(x).pick(HALF_PI_REST.0, HALF_PI_REST.1)
}

/// The arc tangent; at most 2 ulp.
pub fn atan(x: Expr<'_>) -> Expr<'_> {
    with_sign(atan_positive(x.abs()), x)
}

/// The angle of the point `(x, y)`, between `-pi` and `pi`; at most 3 ulp.
pub fn atan2<'s>(y: Expr<'s>, x: Expr<'s>) -> Expr<'s> {
    let (a, b) = (y.abs(), x.abs());
    // The ratio of two infinities is one; two zeros have the angle zero.
    let ratio = (a / b).replace(a.eq(b), 1.0).replace(a.eq(0.0) & b.eq(0.0), 0.0);
    let angle = atan_positive(ratio);
    let mirrored = angle.constant(PI) - (angle - 2.0 * pick_rest(x));
    with_sign(angle.replace(x.bitcast().lt(0), mirrored), y)
}

/// Returns for `a = |x|` whether it exceeds one half, and an arc sine as a sum of two numbers. Up to one half it is the
/// arc sine of `a`. Beyond, it is the arc sine of `sqrt((1 - a) / 2)`, half the angle to `pi / 2`.
fn asin_parts(a: Expr<'_>) -> (Expr<'_>, Expr<'_>, Expr<'_>) {
    let large = a.gt(0.5);
    let z = large.select((a.constant(1.0) - a) * 0.5, a * a);
    let s = large.select(z.sqrt(), a);
    // The rounding error of the root.
    let lost = (-s).mul_add(s, z) / (s + s);
    let lost = lost.replace(!large | s.eq(0.0), 0.0);
    (large, s, ASIN.at(z).mul_add(z * s, lost))
}

/// The arc sine, NaN beyond one; at most 2 ulp.
pub fn asin(x: Expr<'_>) -> Expr<'_> {
    let (large, s, low) = asin_parts(x.abs());
    let from_end = (s.constant(FRAC_PI_2) - (s + s)) - (low + low - pick_rest(x));
    with_sign(large.select(from_end, s + low), x)
}

/// The arc cosine, NaN beyond one; at most 2 ulp.
pub fn acos(x: Expr<'_>) -> Expr<'_> {
    let (large, s, low) = asin_parts(x.abs());
    let rest = pick_rest(x);
    let twice = (s + low) * 2.0;
    let from_end = twice.replace(x.lt(0.0), twice.constant(PI) - (twice - 2.0 * rest));
    let from_middle = s.constant(FRAC_PI_2) - (with_sign(s + low, x) - rest);
    large.select(from_end, from_middle)
}
