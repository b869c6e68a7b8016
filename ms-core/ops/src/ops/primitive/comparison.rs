//! Comparisons, and predicates of floats.

use crate::ops::core::elementwise::{elementwise, wide};
use crate::tensor::Scalar;
use std::cmp::Ordering;

elementwise! {
    /// Whether `a` equals `b`; NaN equals nothing, and the two zeros are equal.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::equal(tensor![1., 2., 3.], 2.).to_vec::<bool>(), [false, true, false]);
    /// ```
    EQUAL = 130: equal as eq(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v) == Some(Ordering::Equal));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.eq(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a` differs from `b`; NaN differs from everything.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::not_equal(tensor![1., 2., 3.], 2.).to_vec::<bool>(), [true, false, true]);
    /// ```
    NOT_EQUAL = 131: not_equal as ne(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v) != Some(Ordering::Equal));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.ne(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a < b`; false if either is NaN.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::less(tensor![1., 2., 3.], 2.).to_vec::<bool>(), [true, false, false]);
    /// ```
    LESS = 132: less as lt(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v).is_some_and(Ordering::is_lt));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.lt(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a <= b`; false if either is NaN.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::less_equal(tensor![1., 2., 3.], 2.).to_vec::<bool>(), [true, true, false]);
    /// ```
    LESS_EQUAL = 133: less_equal as le(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v).is_some_and(Ordering::is_le));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.le(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a > b`; false if either is NaN.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::greater(tensor![1., 2., 3.], 2.).to_vec::<bool>(), [false, false, true]);
    /// ```
    GREATER = 134: greater as gt(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v).is_some_and(Ordering::is_gt));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.gt(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a >= b`; false if either is NaN.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::greater_equal(tensor![1., 2., 3.], 2.).to_vec::<bool>(), [false, true, true]);
    /// ```
    GREATER_EQUAL = 135: greater_equal as ge(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v).is_some_and(Ordering::is_ge));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.ge(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `x` is NaN.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::isnan(tensor![1., f32::INFINITY, f32::NAN]).to_vec::<bool>(), [false, false, true]);
    /// ```
    ISNAN = 136: isnan(x), Float -> bool;
    eval |v| Scalar::Bool(v[0].as_f64().is_nan());
    vjp none "a question has no gradient";
    lower body |[x]| x.ne(x);
    samples [(-2.0, 2.0)];
}

elementwise! {
    /// Whether `x` is infinite.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::isinf(tensor![1., f32::INFINITY, f32::NAN]).to_vec::<bool>(), [false, true, false]);
    /// ```
    ISINF = 137: isinf(x), Float -> bool;
    eval |v| Scalar::Bool(v[0].as_f64().is_infinite());
    vjp none "a question has no gradient";
    lower body |[x]| x.abs().eq(f64::INFINITY);
    samples [(-2.0, 2.0)];
}

elementwise! {
    /// Whether `x` is neither infinite nor NaN.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::isfinite(tensor![1., f32::INFINITY, f32::NAN]).to_vec::<bool>(), [true, false, false]);
    /// ```
    ISFINITE = 138: isfinite(x), Float -> bool;
    eval |v| Scalar::Bool(v[0].as_f64().is_finite());
    vjp none "a question has no gradient";
    lower body |[x]| x.abs().lt(f64::INFINITY);
    samples [(-2.0, 2.0)];
}

fn order(v: &[Scalar]) -> Option<Ordering> {
    match (v[0], v[1]) {
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
        (a, b) => Some(wide(a).cmp(&wide(b))),
    }
}
