//! Quotients and remainders.

use crate::ops::core::elementwise::{elementwise, float1, float2, number2};
use ms_ir::body::Expr;

elementwise! {
    /// Returns the quotient `a / b`; bools and integers are converted to f32.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::div(tensor![1., 3.], 2.).to_vec::<f32>(), [0.5, 1.5]);
    /// ```
    DIV = 110: div(a, b), Float -> same;
    eval |v| float2(v, |a, b| a / b);
    vjp |g, y| { a: g / b, b: -(g * y / b) };
    lower body |[a, b]| a / b;
    samples [(-2.0, 2.0), (0.5, 2.0)];
}

elementwise! {
    /// Returns `1 / x`; bools and integers are converted to f32.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::reciprocal(tensor![2., 4.]).to_vec::<f32>(), [0.5, 0.25]);
    /// ```
    RECIPROCAL = 111: reciprocal(x), Float -> same;
    eval |v| float1(v, f64::recip);
    vjp |g, y| { x: -(g * y.square()) };
    lower body |[x]| x.constant(1.0) / x;
    samples [(0.5, 2.0)];
}

elementwise! {
    /// Returns the quotient rounded down, as Python's `//`. An integer divided by zero gives zero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::floor_div(tensor![7, -7], 2).to_vec::<i64>(), [3, -4]);
    /// ```
    FLOOR_DIV = 112: floor_div(a, b), Numeric -> same;
    eval |v| number2(v, floor_div_f64, |a, b| if b == 0 { 0 } else { a.div_euclid(b) - correction(a, b) });
    vjp zero;
    lower wide_body |[a, b]| if a.dtype().is_float() { floor_div_floats(a, b) } else { floor_div_ints(a, b) };
    samples [(-9.0, 9.0), (0.7, 3.0)];
}

elementwise! {
    /// Returns the remainder of [`floor_div`], with the divisor's sign, as Python's `%`. The remainder of an integer by
    /// zero is zero. Floats are exact while the quotient is below 2^24 (f32) or 2^53 (f64).
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::remainder(tensor![7., -7.], 3.).to_vec::<f32>(), [1., 2.]);
    /// ```
    REMAINDER = 113: remainder(a, b), Numeric -> same;
    eval |v| number2(v, remainder_f64, |a, b| if b == 0 { 0 } else { a - b * (a.div_euclid(b) - correction(a, b)) });
    vjp |g, y| { a: g, b: -(g * a.floor_div(b)) };
    lower wide_body |[a, b]| {
        let rest = truncated_rest(a, b);
        let turned = rest + b;
        rest.replace(rest.ne(0.0) & signs_differ(rest, b), turned)
    };
    samples [(-9.0, 9.0), (0.7, 3.0)];
}

elementwise! {
    /// Returns the remainder of truncated division, with the dividend's sign, as C's `fmod`. The remainder of an
    /// integer by zero is zero. Floats are exact while the quotient is below 2^24 (f32) or 2^53 (f64).
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::fmod(tensor![7., -7.], 3.).to_vec::<f32>(), [1., -1.]);
    /// ```
    FMOD = 114: fmod(a, b), Numeric -> same;
    eval |v| number2(v, |a, b| a % b, |a, b| if b == 0 { 0 } else { a % b });
    vjp |g, y| { a: g, b: -(g * (a / b).trunc()) };
    lower wide_body |[a, b]| truncated_rest(a, b);
    samples [(-9.0, 9.0), (0.7, 3.0)];
}

/// Returns the Euclidean quotient minus the floored one.
fn correction(a: i128, b: i128) -> i128 {
    (b < 0 && a.rem_euclid(b) != 0) as i128
}

fn remainder_f64(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

fn floor_div_f64(a: f64, b: f64) -> f64 {
    if b == 0.0 || a.is_infinite() {
        return (a / b).floor();
    }
    ((a - remainder_f64(a, b)) / b).round_ties_even()
}

fn signs_differ<'s>(a: Expr<'s>, b: Expr<'s>) -> Expr<'s> {
    a.lt(0.0).ne(b.lt(0.0))
}

fn floor_div_ints<'s>(a: Expr<'s>, b: Expr<'s>) -> Expr<'s> {
    let (quotient, rest) = (a / b, a % b);
    quotient.replace(rest.ne(0) & signs_differ(rest, b), quotient - 1)
}

/// Computes the floored quotient of floats by the remainder, because the rounded quotient may be an integer above the
/// exact one.
fn floor_div_floats<'s>(a: Expr<'s>, b: Expr<'s>) -> Expr<'s> {
    let rest = truncated_rest(a, b);
    let quotient = ((a - rest) / b).round_even();
    let floored = quotient.replace(rest.ne(0.0) & signs_differ(rest, b), quotient - 1.0);
    let plain = (a / b).floor();
    let regular = b.ne(0.0) & a.abs().lt(f64::INFINITY);
    regular.select(floored, plain)
}

/// Returns `a - b trunc(a / b)`.
fn truncated_rest<'s>(a: Expr<'s>, b: Expr<'s>) -> Expr<'s> {
    if !a.dtype().is_float() {
        return a % b;
    }
    // The rounded quotient may be too large by one or, after truncation, too small by one.
    let size = b.abs();
    let rest = (-(a / b).trunc()).mul_add(b, a);
    let too_far = rest.ne(0.0) & signs_differ(rest, a);
    let rest = rest.replace(too_far, a.lt(0.0).select(rest - size, rest + size));
    let short = rest.abs().ge(size);
    let rest = rest.replace(short, a.lt(0.0).select(rest + size, rest - size));
    // The remainder of a finite number by an infinite divisor is the number.
    let whole = size.eq(f64::INFINITY) & a.abs().lt(f64::INFINITY);
    rest.replace(whole, a)
}
