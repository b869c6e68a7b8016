//! The error function.

use super::coefficients::{ERF, ERFCX};
use super::{Format, exp, with_sign};
use crate::body::Expr;

/// `erfc a` for `a >= 1/2`: `e^(-a^2)` times a scaled polynomial in `(a - 4) / (a + 4)`
/// (Shepherd and Laframboise, Mathematics of Computation 36, 1981).
fn erfc_tail(a: Expr<'_>) -> Expr<'_> {
    let a = a.min(Format::of(a).pick(10.5, 27.5));
    let t = (a - 4.0) / (a + 4.0);
    let scaled = ERFCX.at(t) / a.mul_add(2.0, 1.0);
    // `e^-(high + low)`, where `low` is the rounding error of the square `high`.
    let high = a * a;
    let low = a.mul_add(a, -high);
    let tail = exp(-high) * scaled;
    tail.mul_add(-low, tail)
}

/// The error function; at most 2 ulp (f32), 4 ulp (f64).
pub fn erf(x: Expr<'_>) -> Expr<'_> {
    let a = x.abs();
    let tail = erfc_tail(a);
    let large = with_sign(tail.constant(1.0) - tail, x);
    a.le(0.5).select(ERF.at(x * x).mul_add(x, x), large)
}

/// `1 - erf(x)` without cancellation; at most 4 ulp (f32), 8 ulp (f64).
pub fn erfc(x: Expr<'_>) -> Expr<'_> {
    let a = x.abs();
    let tail = erfc_tail(a);
    let large = tail.replace(x.lt(0.0), tail.constant(2.0) - tail);
    let small = x.constant(1.0) - ERF.at(x * x).mul_add(x, x);
    a.le(0.5).select(small, large)
}
