//! Hyperbolic functions and their inverses.

use crate::ops::core::elementwise::{elementwise, float1};
use crate::ops::hypot;
use ms_ir::Math;

elementwise! {
    /// Returns the hyperbolic sine.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::sinh(tensor![0., 1e-20]).to_vec::<f32>(), [0., 1e-20]);
    /// ```
    SINH = 180: sinh(x), Float -> same;
    eval |v| float1(v, f64::sinh);
    vjp |g, y| { x: g * x.cosh() };
    lower wide_body |[x]| x.math(Math::Sinh);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// Returns the hyperbolic cosine.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::cosh(tensor![0.]).to_vec::<f32>(), [1.]);
    /// ```
    COSH = 181: cosh(x), Float -> same;
    eval |v| float1(v, f64::cosh);
    vjp |g, y| { x: g * x.sinh() };
    lower wide_body |[x]| x.math(Math::Cosh);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// Returns the hyperbolic tangent.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::tanh(tensor![0., 20., -20.]).to_vec::<f32>(), [0., 1., -1.]);
    /// ```
    TANH = 182: tanh(x), Float -> same;
    eval |v| float1(v, f64::tanh);
    finite_vjp |g, y| { x: g * (1.0 - y.square()) };
    lower wide_body |[x]| x.math(Math::Tanh);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// Returns the inverse hyperbolic sine.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::asinh(tensor![0., 1e-20]).to_vec::<f32>(), [0., 1e-20]);
    /// ```
    ASINH = 183: asinh(x), Float -> same;
    eval |v| float1(v, f64::asinh);
    finite_vjp |g, y| { x: g / hypot(x, 1.0) };
    lower wide_body |[x]| x.math(Math::Asinh);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// Returns the inverse hyperbolic cosine; NaN below one.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::acosh(tensor![1.]).to_vec::<f32>(), [0.]);
    /// ```
    ACOSH = 184: acosh(x), Float -> same;
    eval |v| float1(v, f64::acosh);
    vjp |g, y| { x: g * ((x - 1.0).rsqrt() * (x + 1.0).rsqrt()) };
    lower wide_body |[x]| x.math(Math::Acosh);
    samples [(1.2, 4.0)];
}

elementwise! {
    /// Returns the inverse hyperbolic tangent; NaN beyond one.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::atanh(tensor![0., 1.]).to_vec::<f32>(), [0., f32::INFINITY]);
    /// ```
    ATANH = 185: atanh(x), Float -> same;
    eval |v| float1(v, f64::atanh);
    vjp |g, y| { x: g / (1.0 - x.square()) };
    lower wide_body |[x]| x.math(Math::Atanh);
    samples [(-0.8, 0.8)];
}
