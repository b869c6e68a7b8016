//! `pow`: powers.

use crate::ops::core::elementwise::{elementwise, number2};
use crate::ops::{isinf, isnan, reciprocal, select};
use ms_ir::Math;
use ms_ir::math;

elementwise! {
    /// Returns `a^b`. Powers of negative floats are NaN unless `b` is an integer, and anything to the power of zero is
    /// one. Integers wrap. A negative power of an integer is the reciprocal rounded towards zero, and zero for `a = 0`.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::pow(tensor![1., 2., 4.], 3.).to_vec::<f32>(), [1., 8., 64.]);
    /// ```
    POW = 177: pow(a, b), Numeric -> same;
    eval |v| number2(v, f64::powf, pow_i128);
    vjp |g, y| {
        a: {
            // `a^0` is constant, but `0 * a^-1` is NaN for `a` of zero, or so small that its reciprocal is infinite.
            let constant = b.eq(0.0).logical_and(isinf(reciprocal(a)).logical_or(isnan(a)));
            let slope = b * pow(a, select(&constant, 1.0, b - 1.0));
            select(constant, 0.0, g * slope)
        },
        // The gradient is zero where the base is zero, although its logarithm is infinite.
        b: g * (y * select(a.eq(0.0).logical_and(b.ge(0.0)), 1.0, a).log()),
    };
    lower wide_body |[a, b]| if a.dtype().is_float() { a.math2(Math::Pow, b) } else { math::pow_int(a, b) };
    samples [(0.3, 3.0), (-2.0, 2.0)];
}

fn pow_i128(mut base: i128, mut power: i128) -> i128 {
    if power < 0 {
        return match base {
            1 => 1,
            -1 if power % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let mut product: i128 = 1;
    while power > 0 {
        if power % 2 == 1 {
            product = product.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        power /= 2;
    }
    product
}
