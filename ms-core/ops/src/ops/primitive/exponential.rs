//! Exponentials, logarithms and roots.

use crate::ops::core::elementwise::{elementwise, float1};
use ms_ir::Math;
use ms_ir::math;

elementwise! {
    /// Returns `e^x`; bools and integers are converted to f32, as in all functions of floats.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::exp(tensor![0., f32::NEG_INFINITY]).to_vec::<f32>(), [1., 0.]);
    /// ```
    EXP = 170: exp(x), Float -> same;
    eval |v| float1(v, f64::exp);
    vjp |g, y| { x: g * y };
    lower wide_body |[x]| x.math(Math::Exp);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// Returns `e^x - 1` without cancellation.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::expm1(tensor![0., 1e-20]).to_vec::<f32>(), [0., 1e-20]);
    /// ```
    EXPM1 = 171: expm1(x), Float -> same;
    eval |v| float1(v, f64::exp_m1);
    vjp |g, y| { x: g * (y + 1.0) };
    lower wide_body |[x]| x.math(Math::Expm1);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// Returns the natural logarithm; NaN for negative numbers.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::log(tensor![1., 0.]).to_vec::<f32>(), [0., f32::NEG_INFINITY]);
    /// ```
    LOG = 172: log(x), Float -> same;
    eval |v| float1(v, f64::ln);
    vjp |g, y| { x: g / x };
    lower wide_body |[x]| x.math(Math::Log);
    samples [(0.2, 5.0)];
}

elementwise! {
    /// Returns `ln(1 + x)` without cancellation.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::log1p(tensor![0., 1e-20]).to_vec::<f32>(), [0., 1e-20]);
    /// ```
    LOG1P = 173: log1p(x), Float -> same;
    eval |v| float1(v, f64::ln_1p);
    vjp |g, y| { x: g / (x + 1.0) };
    lower wide_body |[x]| x.math(Math::Log1p);
    samples [(-0.8, 4.0)];
}

elementwise! {
    /// Returns the square root; NaN for negative numbers.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::sqrt(tensor![4., 9.]).to_vec::<f32>(), [2., 3.]);
    /// ```
    SQRT = 174: sqrt(x), Float -> same;
    eval |v| float1(v, f64::sqrt);
    vjp |g, y| { x: g * 0.5 / y };
    lower wide_body |[x]| x.sqrt();
    samples [(0.2, 5.0)];
}

elementwise! {
    /// Returns `1 / sqrt(x)`.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::rsqrt(tensor![4., 0.25]).to_vec::<f32>(), [0.5, 2.]);
    /// ```
    RSQRT = 175: rsqrt(x), Float -> same;
    eval |v| float1(v, |x| 1.0 / x.sqrt());
    vjp |g, y| { x: g * -0.5 * (y / x) };
    lower wide_body |[x]| x.math(Math::Rsqrt);
    samples [(0.2, 5.0)];
}

elementwise! {
    /// Returns the logistic function `1 / (1 + e^-x)`.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::sigmoid(tensor![0., 100., -200.]).to_vec::<f32>(), [0.5, 1., 0.]);
    /// ```
    SIGMOID = 176: sigmoid(x), Float -> same;
    eval |v| float1(v, |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) });
    finite_vjp |g, y| { x: g * (y * (1.0 - y)) };
    lower wide_body |[x]| math::sigmoid(x);
    samples [(-3.0, 3.0)];
}
