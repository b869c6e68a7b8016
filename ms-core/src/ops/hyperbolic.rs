//! Hyperbolic functions and their inverses.

use super::elementwise::{elementwise, float1};
use super::math;

elementwise! {
    /// The hyperbolic sine.
    SINH = 180: sinh(x), Float -> same;
    eval |v| float1(v, f64::sinh);
    vjp |g, y| { x: g * x.cosh() };
    lower wide_body |[x]| math::sinh(x);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// The hyperbolic cosine.
    COSH = 181: cosh(x), Float -> same;
    eval |v| float1(v, f64::cosh);
    vjp |g, y| { x: g * x.sinh() };
    lower wide_body |[x]| math::cosh(x);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// The hyperbolic tangent.
    TANH = 182: tanh(x), Float -> same;
    eval |v| float1(v, f64::tanh);
    vjp |g, y| { x: g * (1.0 - y.square()) };
    lower wide_body |[x]| math::tanh(x);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// The inverse hyperbolic sine.
    ASINH = 183: asinh(x), Float -> same;
    eval |v| float1(v, f64::asinh);
    vjp |g, y| { x: g * (x.square() + 1.0).rsqrt() };
    lower wide_body |[x]| math::asinh(x);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// The inverse hyperbolic cosine; below one nan.
    ACOSH = 184: acosh(x), Float -> same;
    eval |v| float1(v, f64::acosh);
    vjp |g, y| { x: g * ((x - 1.0) * (x + 1.0)).rsqrt() };
    lower wide_body |[x]| math::acosh(x);
    samples [(1.2, 4.0)];
}

elementwise! {
    /// The inverse hyperbolic tangent; beyond one nan.
    ATANH = 185: atanh(x), Float -> same;
    eval |v| float1(v, f64::atanh);
    vjp |g, y| { x: g / (1.0 - x.square()) };
    lower wide_body |[x]| math::atanh(x);
    samples [(-0.8, 0.8)];
}
