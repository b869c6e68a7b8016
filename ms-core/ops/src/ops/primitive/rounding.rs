//! Rounding to integers; integers are unchanged.

use crate::ops::core::elementwise::{elementwise, number1};
use ms_ir::body::Expr;

elementwise! {
    /// Rounds `x` down.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::floor(tensor![1.2, -1.2]).to_vec::<f32>(), [1., -2.]);
    /// ```
    FLOOR = 160: floor(x), Numeric -> same;
    eval |v| number1(v, f64::floor, |x| x);
    vjp zero;
    lower body |[x]| rounded(x, Expr::floor);
    samples [(-9.0, 9.0)];
}

elementwise! {
    /// Rounds `x` up.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::ceil(tensor![1.2, -1.2]).to_vec::<f32>(), [2., -1.]);
    /// ```
    CEIL = 161: ceil(x), Numeric -> same;
    eval |v| number1(v, f64::ceil, |x| x);
    vjp zero;
    lower body |[x]| rounded(x, Expr::ceil);
    samples [(-9.0, 9.0)];
}

elementwise! {
    /// Rounds `x` to the nearest integer, ties to even.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::round(tensor![0.5, 1.5, -1.2]).to_vec::<f32>(), [0., 2., -1.]);
    /// ```
    ROUND = 162: round(x), Numeric -> same;
    eval |v| number1(v, f64::round_ties_even, |x| x);
    vjp zero;
    lower body |[x]| rounded(x, Expr::round_even);
    samples [(-9.0, 9.0)];
}

elementwise! {
    /// Rounds `x` towards zero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::trunc(tensor![1.7, -1.7]).to_vec::<f32>(), [1., -1.]);
    /// ```
    TRUNC = 163: trunc(x), Numeric -> same;
    eval |v| number1(v, f64::trunc, |x| x);
    vjp zero;
    lower body |[x]| rounded(x, Expr::trunc);
    samples [(-9.0, 9.0)];
}

fn rounded<'s>(x: Expr<'s>, round: impl FnOnce(Expr<'s>) -> Expr<'s>) -> Expr<'s> {
    if x.dtype().is_float() { round(x) } else { x }
}
