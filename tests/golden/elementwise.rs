//! Applies elementwise ops by the names of the golden cases.

use crate::case::{Attributes, dtype_of};
use ms::ops;
use ms::tensor::Scalar;
use ms::{DType, Tensor};

/// Looks up a function by its name.
macro_rules! by_name {
    ($op:expr, $x:expr; unary: $($unary:ident)*; binary: $($binary:ident)*; $($other:tt)*) => {
        match $op {
            $(stringify!($unary) => ops::$unary(&$x[0]),)*
            $(stringify!($binary) => ops::$binary(&$x[0], &$x[1]),)*
            $($other)*
        }
    };
}

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let result = by_name! {
        op, x;
        unary: abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf erfc exp expm1 floor hsigmoid
            hswish isfinite isinf isnan log log1p logical_not logsigmoid mish neg reciprocal relu relu6 round rsqrt
            sigmoid sign silu sin sinh softsign sqrt square selu tan tanh trunc;
        binary: add atan2 bitwise_and bitwise_or bitwise_xor div equal floor_div fmod greater greater_equal hypot
            left_shift less less_equal logical_and logical_or logical_xor maximum minimum mul not_equal pow
            remainder right_shift sub;
        "cast" => cast(attrs, &x[0], ops::cast),
        "celu" => ops::celu(&x[0], attrs.float("alpha")),
        "clamp" => clamp(attrs, &x[0]),
        "elu" => ops::elu(&x[0], attrs.float("alpha")),
        "gelu" if attrs.text("approximate") == "tanh" => ops::gelu_tanh(&x[0]),
        "gelu" => ops::gelu(&x[0]),
        "leaky_relu" => ops::leaky_relu(&x[0], attrs.float("negative_slope")),
        "select" => ops::select(&x[0], &x[1], &x[2]),
        "softplus" => ops::softplus(&x[0], attrs.float("beta"), attrs.float("threshold")),
        _ => return None,
    };
    Some(vec![result])
}

/// Casts a tensor through the dtypes of `via` to the last one, each step by `cast`.
pub fn cast(attrs: &Attributes, x: &Tensor, cast: fn(Tensor, DType) -> Tensor) -> Tensor {
    let via = if attrs.has("via") { attrs.texts("via") } else { Vec::new() };
    let steps = via.into_iter().chain([attrs.text("to")]).map(dtype_of);
    steps.fold(x.clone(), cast)
}

fn clamp(attrs: &Attributes, x: &Tensor) -> Tensor {
    let bound = |key: &str| {
        let scalar = if x.dtype().is_int() { Scalar::Int(attrs.int(key) as i64) } else { attrs.float(key).into() };
        Tensor::scalar(scalar)
    };
    let [low, high] = ["min", "max"].map(|key| attrs.has(key).then(|| ops::cast(bound(key), x.dtype())));
    match (low, high) {
        (Some(low), Some(high)) => ops::clamp(x, low, high),
        (Some(low), None) => ops::clamp_min(x, low),
        (None, Some(high)) => ops::clamp_max(x, high),
        (None, None) => x.clone(),
    }
}
