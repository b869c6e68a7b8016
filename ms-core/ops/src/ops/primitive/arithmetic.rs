//! Sums, differences, products, and simple unary functions.

use crate::ops::core::elementwise::{elementwise, number1, number2};
use crate::tensor::DType;

elementwise! {
    /// Returns the sum `a + b`; integers wrap, and bools are combined by "or".
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::add(tensor![[1., 2.], [3., 4.]], tensor![10., 20.]).to_vec::<f32>(), [11., 22., 13., 24.]);
    /// ```
    ADD = 100: add(a, b), Any -> same;
    eval |v| number2(v, |a, b| a + b, |a, b| a + b);
    finite_vjp |g, y| { a: g, b: g };
    lower body |[a, b]| if a.dtype() == DType::Bool { a | b } else { a + b };
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Returns the difference `a - b`; integers wrap.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::sub(tensor![5, 7], 2).to_vec::<i64>(), [3, 5]);
    /// ```
    SUB = 101: sub(a, b), Numeric -> same;
    eval |v| number2(v, |a, b| a - b, |a, b| a - b);
    finite_vjp |g, y| { a: g, b: -g };
    lower body |[a, b]| a - b;
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Returns the product `a * b`; integers wrap, and bools are combined by "and".
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::mul(tensor![1., 2.], 3.).to_vec::<f32>(), [3., 6.]);
    /// ```
    MUL = 102: mul(a, b), Any -> same;
    eval |v| number2(v, |a, b| a * b, i128::wrapping_mul);
    finite_vjp |g, y| { a: g * b, b: g * a };
    lower body |[a, b]| if a.dtype() == DType::Bool { a & b } else { a * b };
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Returns the negation `-x`; integers wrap.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::neg(tensor![1, -2]).to_vec::<i64>(), [-1, 2]);
    /// ```
    NEG = 103: neg(x), Numeric -> same;
    eval |v| number1(v, |x| -x, |x| -x);
    finite_vjp |g, y| { x: -g };
    lower body |[x]| -x;
    samples [(-2.0, 2.0)];
}

elementwise! {
    /// Returns the magnitude `|x|`; the minimum of an integer dtype wraps to itself. The gradient at zero is zero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::abs(tensor![-1.5, 2.]).to_vec::<f32>(), [1.5, 2.]);
    /// ```
    ABS = 104: abs(x), Numeric -> same;
    eval |v| number1(v, f64::abs, i128::abs);
    finite_vjp |g, y| { x: g * x.sign() };
    lower body |[x]| if is_unsigned(x.dtype()) { x } else { x.abs() };
    samples [(0.2, 2.0)];
}

elementwise! {
    /// Returns -1, 0 or 1 by the sign of `x`; zeros and NaN are unchanged.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::sign(tensor![-3., 0., 5.]).to_vec::<f32>(), [-1., 0., 1.]);
    /// ```
    SIGN = 105: sign(x), Numeric -> same;
    eval |v| number1(v, |x| if x == 0.0 { x } else { x.signum() }, i128::signum);
    vjp zero;
    lower body |[x]| {
        let negative = x.lt(0.0).select(x.constant(-1.0), x);
        x.gt(0.0).select(x.constant(1.0), negative)
    };
    samples [(-2.0, 2.0)];
}

elementwise! {
    /// Returns `x * x`; integers wrap.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::square(tensor![-3., 4.]).to_vec::<f32>(), [9., 16.]);
    /// ```
    SQUARE = 106: square(x), Numeric -> same;
    eval |v| number1(v, |x| x * x, |x| x.wrapping_mul(x));
    finite_vjp |g, y| { x: g * x * 2.0 };
    lower body |[x]| x * x;
    samples [(-2.0, 2.0)];
}

fn is_unsigned(dtype: DType) -> bool {
    dtype.is_int() && !dtype.is_signed_int()
}
