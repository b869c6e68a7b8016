//! Applies operators as methods of tensors.

use crate::case::Case;
use crate::{elementwise, movement, reductions};
use ms::Tensor;
use ms::ops::Keepdims;

/// Looks up methods by the names of operators.
macro_rules! by_name {
    ($op:expr, $attrs:expr, $x:expr;
     unary: $($unary:ident)*; binary: $($binary:ident)*; renamed: $($name:ident $method:ident)*;
     folds: $($fold:ident)*; $($other:tt)*) => {
        match $op {
            $(stringify!($unary) => $x[0].$unary(),)*
            $(stringify!($binary) => $x[0].$binary(&$x[1]),)*
            $(stringify!($name) => $x[0].$method(&$x[1]),)*
            $(stringify!($fold) => $x[0].$fold(Keepdims::when($attrs.flag("keepdims"), reductions::axes($attrs))),)*
            $($other)*
        }
    };
}

/// Returns the results of an operator; `None` if tensors have no such method.
pub fn apply(case: &Case, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let attrs = &case.attrs;
    let axis = || attrs.int("axis");
    let result = by_name! {
        &*case.op, attrs, x;
        unary: abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf erfc exp expm1 floor isfinite isinf isnan log log1p logical_not neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc;
        binary: add atan2 bitwise_and bitwise_or bitwise_xor div floor_div fmod hypot left_shift logical_and logical_or
            logical_xor masked_select maximum minimum mul pow remainder right_shift sub;
        renamed: equal eq greater gt greater_equal ge less lt less_equal le not_equal ne;
        folds: all any logsumexp max mean min prod sum;
        "argmax" if attrs.has("axis") && !attrs.flag("keepdims") => x[0].argmax(axis()),
        "argmin" if attrs.has("axis") && !attrs.flag("keepdims") => x[0].argmin(axis()),
        "argsort" => x[0].argsort(axis(), attrs.flag("descending")),
        "cast" => elementwise::cast(attrs, &x[0], |x, to| x.cast(to)),
        "cumprod" => x[0].cumprod(axis()),
        "cumsum" if !attrs.flag("exclusive") && !attrs.flag("reverse") => x[0].cumsum(axis()),
        "diag" => x[0].diag(attrs.int("k")),
        "expand" => x[0].broadcast_to(attrs.sizes("shape")),
        "expand_dims" if !attrs.has("axes") => x[0].expand_dims(axis()),
        "flip" => x[0].flip(attrs.ints("axes")),
        "gather" => x[0].gather(&x[1], axis()),
        "gather_nd" => x[0].gather_nd(&x[1]),
        "index_add" => x[0].index_add(&x[1], &x[2], axis()),
        "index_select" => x[0].index_select(&x[1], axis()),
        "log_softmax" => x[0].log_softmax(axis()),
        "masked_fill" => x[0].masked_fill(&x[1], attrs.float("value")),
        "matmul" if !attrs.flag("transpose_a") && !attrs.flag("transpose_b") => x[0].matmul(&x[1]),
        "nonzero" => x[0].nonzero(),
        "norm" => x[0].norm(attrs.float("p"), Keepdims::when(attrs.flag("keepdims"), reductions::axes(attrs))),
        "permute" => x[0].permute(attrs.ints("axes")),
        "repeat" if attrs.has("axis") && !attrs.is_list("repeats") => x[0].repeat(attrs.size("repeats"), axis()),
        "reshape" => x[0].reshape(&attrs.ints("shape")[..]),
        "roll" => x[0].roll(&attrs.ints("shifts"), attrs.ints("axes")),
        "scatter" => x[0].scatter(&x[1], &x[2], axis()),
        "scatter_add" => x[0].scatter_add(&x[1], &x[2], axis()),
        "select" => x[0].select(&x[1], &x[2]),
        "slice" => x[0].i(&movement::slices(attrs)[..]),
        "softmax" => x[0].softmax(axis()),
        "sort" => return Some(movement::pair(x[0].sort(axis(), attrs.flag("descending")))),
        "split" if attrs.has("sections") => return Some(x[0].split(attrs.size("sections"), axis())),
        "squeeze" => x[0].squeeze(attrs.ints("axes")),
        "std" => x[0].std(Keepdims::when(attrs.flag("keepdims"), reductions::axes(attrs)), attrs.size("ddof")),
        "take_along_axis" => x[0].take_along_axis(&x[1], axis()),
        "tile" => x[0].tile(&attrs.sizes("reps")),
        "topk" => return Some(movement::pair(x[0].topk(attrs.size("k"), axis(), attrs.flag("largest")))),
        "transpose" => x[0].transpose(attrs.int("axis0"), attrs.int("axis1")),
        "tril" => x[0].tril(attrs.int("k")),
        "triu" => x[0].triu(attrs.int("k")),
        "var" => x[0].var(Keepdims::when(attrs.flag("keepdims"), reductions::axes(attrs)), attrs.size("ddof")),
        _ => return None,
    };
    Some(vec![result])
}
