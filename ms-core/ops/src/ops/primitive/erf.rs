//! The error function.

use crate::ops::core::elementwise::{elementwise, float1};
use ms_ir::Math;
use std::f64::consts::FRAC_2_SQRT_PI;

elementwise! {
    /// Returns the error function: `2 / sqrt(pi)` times the integral of `e^(-t^2)` from zero to `x`.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::erf(tensor![0., 9., -9.]).to_vec::<f32>(), [0., 1., -1.]);
    /// ```
    ERF = 200: erf(x), Float -> same;
    eval |v| float1(v, erf_f64);
    finite_vjp |g, y| { x: g * ((-x.square()).exp() * FRAC_2_SQRT_PI) };
    lower wide_body |[x]| x.math(Math::Erf);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// Returns `1 - erf(x)` without cancellation.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::erfc(tensor![0., -9.]).to_vec::<f32>(), [1., 2.]);
    /// ```
    ERFC = 201: erfc(x), Float -> same;
    eval |v| float1(v, erfc_f64);
    finite_vjp |g, y| { x: -(g * ((-x.square()).exp() * FRAC_2_SQRT_PI)) };
    lower wide_body |[x]| x.math(Math::Erfc);
    samples [(-3.0, 3.0)];
}

/// Evaluates the series `2 / sqrt(pi) sum (-1)^n x^(2n+1) / (n! (2n+1))` (DLMF 7.6.1), smallest terms first. Uses the
/// complement where it is smaller.
pub(in crate::ops) fn erf_f64(x: f64) -> f64 {
    if x.abs() > 0.7 {
        return (1.0 - erfc_f64(x.abs())).copysign(x);
    }
    let z = -x * x;
    let mut powers = [1.0; 24];
    for n in 1..powers.len() {
        powers[n] = powers[n - 1] * z / n as f64;
    }
    let sum: f64 = powers.iter().enumerate().rev().map(|(n, power)| power / (2 * n + 1) as f64).sum();
    FRAC_2_SQRT_PI * x * sum
}

/// Evaluates the continued fraction `e^(-x^2) / sqrt(pi) / (x + (1/2) / (x + 1 / (x + (3/2) / ..)))` (DLMF 7.9.1),
/// which needs more terms for smaller `x > 1/2`.
pub(in crate::ops) fn erfc_f64(x: f64) -> f64 {
    if x.is_nan() || x <= 0.5 {
        return 1.0 - erf_f64(x);
    }
    // The result is zero from here on; the rounding error of an infinite square would be NaN.
    let x = x.min(30.0);
    let terms = 40 + (400.0 / (x * x)) as usize;
    let fraction = (1..=terms).rev().fold(x, |rest, n| x + 0.5 * n as f64 / rest);
    // The square is split in two parts, because e^-x^2 magnifies its rounding error.
    let square = x * x;
    let error = x.mul_add(x, -square);
    FRAC_2_SQRT_PI / 2.0 * (-square).exp() * (1.0 - error) / fraction
}
