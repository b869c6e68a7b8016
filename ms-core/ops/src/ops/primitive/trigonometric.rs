//! Trigonometric functions, their inverses, and the hypotenuse.

use crate::ops::core::elementwise::{elementwise, float1, float2};
use crate::ops::select;
use crate::tensor::Tensor;
use ms_ir::Math;
use ms_ir::body::Expr;

elementwise! {
    /// Returns the sine of an angle in radians.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::sin(tensor![0., std::f32::consts::FRAC_PI_2]).to_vec::<f32>(), [0., 1.]);
    /// ```
    SIN = 190: sin(x), Float -> same;
    eval |v| float1(v, f64::sin);
    finite_vjp |g, y| { x: g * x.cos() };
    lower wide_body |[x]| x.math(Math::Sin);
    samples [(-9.0, 9.0)];
}

elementwise! {
    /// Returns the cosine of an angle in radians.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::cos(tensor![0.]).to_vec::<f32>(), [1.]);
    /// ```
    COS = 191: cos(x), Float -> same;
    eval |v| float1(v, f64::cos);
    finite_vjp |g, y| { x: -(g * x.sin()) };
    lower wide_body |[x]| x.math(Math::Cos);
    samples [(-9.0, 9.0)];
}

elementwise! {
    /// Returns the tangent of an angle in radians.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::tan(tensor![0., 1e-20]).to_vec::<f32>(), [0., 1e-20]);
    /// ```
    TAN = 192: tan(x), Float -> same;
    eval |v| float1(v, f64::tan);
    vjp |g, y| { x: g * (y.square() + 1.0) };
    lower wide_body |[x]| x.math(Math::Tan);
    samples [(-1.2, 1.2)];
}

elementwise! {
    /// Returns the arc sine; NaN beyond one.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::asin(tensor![0., 1.]).to_vec::<f32>(), [0., std::f32::consts::FRAC_PI_2]);
    /// ```
    ASIN = 193: asin(x), Float -> same;
    eval |v| float1(v, f64::asin);
    vjp |g, y| { x: g * ((1.0 - x) * (x + 1.0)).rsqrt() };
    lower wide_body |[x]| x.math(Math::Asin);
    samples [(-0.9, 0.9)];
}

elementwise! {
    /// Returns the arc cosine; NaN beyond one.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::acos(tensor![1.]).to_vec::<f32>(), [0.]);
    /// ```
    ACOS = 194: acos(x), Float -> same;
    eval |v| float1(v, f64::acos);
    vjp |g, y| { x: -(g * ((1.0 - x) * (x + 1.0)).rsqrt()) };
    lower wide_body |[x]| x.math(Math::Acos);
    samples [(-0.9, 0.9)];
}

elementwise! {
    /// Returns the arc tangent.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::atan(tensor![0., 1.]).to_vec::<f32>(), [0., std::f32::consts::FRAC_PI_4]);
    /// ```
    ATAN = 195: atan(x), Float -> same;
    eval |v| float1(v, f64::atan);
    finite_vjp |g, y| { x: { let length = &hypot(x, 1.0); g / length / length } };
    lower wide_body |[x]| x.math(Math::Atan);
    samples [(-3.0, 3.0)];
}

elementwise! {
    /// Returns the angle of the point `(b, a)` in radians, between -pi and pi. The gradient is zero where both are
    /// zero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::atan2(tensor![1., 0.], tensor![0., -1.]).to_vec::<f32>(), [std::f32::consts::FRAC_PI_2, std::f32::consts::PI]);
    /// ```
    ATAN2 = 196: atan2(a, b), Float -> same;
    eval |v| float2(v, f64::atan2);
    vjp |g, y| {
        a: { let length = &distance(a, b); g * (b / length / length) },
        b: { let length = &distance(a, b); -(g * (a / length / length)) },
    };
    lower wide_body |[a, b]| a.math2(Math::Atan2, b);
    samples [(-2.0, 2.0), (0.3, 2.0)];
}

elementwise! {
    /// Returns the length `sqrt(a^2 + b^2)` without intermediate overflow; infinite if either is infinite.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::hypot(tensor![3., 3e30], tensor![4., 4e30]).to_vec::<f32>(), [5., 5e30]);
    /// ```
    HYPOT = 197: hypot(a, b), Float -> same;
    eval |v| float2(v, f64::hypot);
    vjp |g, y| { a: g * (a / y), b: g * (b / y) };
    lower wide_body |[a, b]| length(a.abs(), b.abs());
    samples [(-2.0, 2.0), (0.3, 2.0)];
}

/// Returns the distance of a point from the origin, but infinity for the origin.
fn distance(a: &Tensor, b: &Tensor) -> Tensor {
    let length = hypot(a, b);
    select(length.eq(0.0), f64::INFINITY, length)
}

fn length<'s>(a: Expr<'s>, b: Expr<'s>) -> Expr<'s> {
    let (long, short) = (a.max(b), a.min(b));
    let ratio = (short / long).replace(long.eq(0.0), 0.0);
    let length = long * ratio.mul_add(ratio, 1.0).sqrt();
    length.replace(a.eq(f64::INFINITY) | b.eq(f64::INFINITY), f64::INFINITY)
}
