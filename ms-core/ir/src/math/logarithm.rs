//! Logarithms and the inverse hyperbolic functions.

use super::coefficients::{LOG, LOG_TAIL};
use super::{Format, LN_2, to_float, with_sign};
use crate::body::Expr;
use std::f64::consts::{FRAC_1_SQRT_2, LN_2 as LN_2_VALUE};

/// `ln u + correction`, where `correction` is small compared with a unit in the last place of `u`.
fn log_corrected<'s>(u: Expr<'s>, correction: Option<Expr<'s>>) -> Expr<'s> {
    let format = Format::of(u);
    let (k, m) = split_exponent(u);

    // ln(1 + f) = f - (f^2/2 - s (f^2/2 + z P(z))), where f = 2s / (1 - s) and z = s^2.
    let f = m - 1.0;
    let s = f / (f + 2.0);
    let z = s * s;
    let half_square = f * f * 0.5;
    let series = s * (half_square + z * LOG.at(z));
    let parts = LN_2.of(format);
    let low = match correction {
        Some(correction) => k.mul_add(parts[1], correction),
        None => k * parts[1],
    };
    let ln = k.mul_add(parts[0], f - (half_square - (series + low)));

    let ln = ln.replace(!u.lt(f64::INFINITY), u);
    ln.replace(u.lt(0.0), f64::NAN).replace(u.eq(0.0), f64::NEG_INFINITY)
}

/// Splits a positive finite `u` into `k` and `m` with `u = 2^k m`, where `m` is between the roots of 1/2 and 2.
fn split_exponent(u: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    let format = Format::of(u);
    let fraction_bits = format.fraction_bits();
    let least_normal = format.pick(f32::MIN_POSITIVE as f64, f64::MIN_POSITIVE);
    let root_half = format.pick((FRAC_1_SQRT_2 as f32).to_bits() as i64, FRAC_1_SQRT_2.to_bits() as i64);

    // Subnormals are scaled up first.
    let subnormal = u.lt(least_normal);
    let normal = subnormal.select(u * (1i64 << (fraction_bits + 1)) as f64, u);
    let bits = normal.bitcast();
    let exponent = (bits - root_half) >> fraction_bits;
    let m = (bits - (exponent << fraction_bits)).bitcast();
    let exponent = to_float(exponent);
    (subnormal.select(exponent - (fraction_bits + 1) as f64, exponent), m)
}

/// `ln u` of a positive finite f64 as a sum of two numbers, with 12 more bits of precision than one number has.
pub(super) fn log_double(u: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    let (k, m) = split_exponent(u);
    // s = (m - 1) / (m + 1)
    let f = m - 1.0;
    let sum = m + 1.0;
    let sum_low = m - (sum - 1.0);
    let s = f / sum;
    let s_low = (-s).mul_add(sum_low, (-s).mul_add(sum, f)) / sum;
    let z = s * s;
    let z_low = s.mul_add(s, -z) + s * 2.0 * s_low;
    // P = 2/3 + z (2/5 + ..)
    let tail = z * LOG_TAIL.at(z);
    let two_thirds = z.constant(2.0 / 3.0);
    let p = two_thirds + tail;
    let p_low = (two_thirds - p) + tail + 3.700743415417188e-17;
    // ln m = 2s + s z P
    let cube = s * z;
    let cube_low = s.mul_add(z, -cube) + s.mul_add(z_low, s_low * z);
    let rest = cube * p;
    let rest_low = cube.mul_add(p, -rest) + cube.mul_add(p_low, cube_low * p);
    let twice = s + s;
    let ln = twice + rest;
    let ln_low = ((twice - ln) + rest) + (s_low + s_low + rest_low);
    // k ln 2 + ln m
    let parts = LN_2.of(Format::F64);
    let whole = k * parts[0];
    let whole_low = k.mul_add(parts[1], k.mul_add(parts[0], -whole));
    let high = whole + ln;
    (high, ((whole - high) + ln) + (ln_low + whole_low))
}

/// The natural logarithm; at most 1 ulp.
pub fn log(x: Expr<'_>) -> Expr<'_> {
    log_corrected(x, None)
}

/// `ln(1 + x)` without cancellation; at most 2 ulp.
pub fn log1p(x: Expr<'_>) -> Expr<'_> {
    let u = x + 1.0;
    // The rounding error of 1 + x.
    let error = u.ge(2.0).select(x.constant(1.0) - (u - x), x - (u - 1.0));
    log_corrected(u, Some(error / u)).replace(x.eq(0.0), x)
}

/// `log1p(arg)`, or `ln x + ln 2` if `x` is so large that `arg` might overflow.
fn log_of_sum<'s>(x: Expr<'s>, arg: Expr<'s>) -> Expr<'s> {
    let large = x.gt(Format::of(x).pick((1u64 << 30) as f64, (1u64 << 60) as f64));
    log1p(large.select(x, arg)) + large.select(x.constant(LN_2_VALUE), 0.0)
}

/// The inverse hyperbolic sine; at most 3 ulp.
pub fn asinh(x: Expr<'_>) -> Expr<'_> {
    let a = x.abs();
    let square = a * a;
    with_sign(log_of_sum(a, a + square / ((square + 1.0).sqrt() + 1.0)), x)
}

/// The inverse hyperbolic cosine, NaN below one; at most 3 ulp.
pub fn acosh(x: Expr<'_>) -> Expr<'_> {
    let t = x - 1.0;
    log_of_sum(x, t + t.mul_add(t, t + t).sqrt()).replace(x.lt(1.0), f64::NAN)
}

/// The inverse hyperbolic tangent, NaN beyond one; at most 3 ulp.
pub fn atanh(x: Expr<'_>) -> Expr<'_> {
    let a = x.abs();
    with_sign(log1p((a + a) / (a.constant(1.0) - a)) * 0.5, x)
}
