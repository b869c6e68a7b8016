//! Comparisons, and questions about floats.

use super::elementwise::{elementwise, wide};
use crate::tensor::Scalar;
use std::cmp::Ordering;

elementwise! {
    /// Whether `a` equals `b`; nan equals nothing, the two zeros are equal.
    EQUAL = 130: equal as eq(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v) == Some(Ordering::Equal));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.eq(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a` differs from `b`; nan differs from everything.
    NOT_EQUAL = 131: not_equal as ne(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v) != Some(Ordering::Equal));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.ne(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a < b`; never with nan.
    LESS = 132: less as lt(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v).is_some_and(Ordering::is_lt));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.lt(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a <= b`; never with nan.
    LESS_EQUAL = 133: less_equal as le(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v).is_some_and(Ordering::is_le));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.le(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a > b`; never with nan.
    GREATER = 134: greater as gt(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v).is_some_and(Ordering::is_gt));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.gt(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `a >= b`; never with nan.
    GREATER_EQUAL = 135: greater_equal as ge(a, b), Any -> bool;
    eval |v| Scalar::Bool(order(v).is_some_and(Ordering::is_ge));
    vjp none "a comparison has no gradient";
    lower body |[a, b]| a.ge(b);
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Whether `x` is nan.
    ISNAN = 136: isnan(x), Float -> bool;
    eval |v| Scalar::Bool(v[0].as_f64().is_nan());
    vjp none "a question has no gradient";
    lower body |[x]| x.ne(x);
    samples [(-2.0, 2.0)];
}

elementwise! {
    /// Whether `x` is infinite.
    ISINF = 137: isinf(x), Float -> bool;
    eval |v| Scalar::Bool(v[0].as_f64().is_infinite());
    vjp none "a question has no gradient";
    lower body |[x]| x.abs().eq(f64::INFINITY);
    samples [(-2.0, 2.0)];
}

elementwise! {
    /// Whether `x` is neither infinite nor nan.
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
