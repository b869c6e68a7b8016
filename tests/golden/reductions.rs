//! Applies reductions and scans by the names of the golden cases.

use crate::case::Attributes;
use ms::Tensor;
use ms::ops;

/// Looks up a reduction by the name of its function.
macro_rules! by_name {
    ($op:expr, $attrs:expr, $x:expr; $($name:ident)*; $($other:tt)*) => {
        match $op {
            $(stringify!($name) => ops::$name($x, ops::Keepdims::when($attrs.flag("keepdims"), axes($attrs))),)*
            $($other)*
        }
    };
}

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let result = by_name! {
        op, attrs, &x[0];
        all any logsumexp max mean min prod sum;
        "argmax" => extreme(|x, axis| ops::argmax(x, axis), attrs, &x[0]),
        "argmin" => extreme(|x, axis| ops::argmin(x, axis), attrs, &x[0]),
        "cumprod" => ops::cumprod(&x[0], attrs.int("axis")),
        "cumsum" => ops::cumsum_of(&x[0], attrs.int("axis"), attrs.flag("exclusive"), attrs.flag("reverse")),
        "norm" => ops::norm(&x[0], attrs.float("p"), ops::Keepdims::when(attrs.flag("keepdims"), axes(attrs))),
        "std" => ops::std(&x[0], ops::Keepdims::when(attrs.flag("keepdims"), axes(attrs)), attrs.size("ddof")),
        "var" => ops::var(&x[0], ops::Keepdims::when(attrs.flag("keepdims"), axes(attrs)), attrs.size("ddof")),
        _ => return None,
    };
    Some(vec![result])
}

/// Returns the axes, or `None` for all axes.
pub fn axes(attrs: &Attributes) -> Option<Vec<isize>> {
    attrs.has("axes").then(|| attrs.ints("axes"))
}

/// Returns the position of the extreme element, among all elements if the case names no axis.
fn extreme(find: fn(&Tensor, isize) -> Tensor, attrs: &Attributes, x: &Tensor) -> Tensor {
    if !attrs.has("axis") {
        return find(&ops::flatten(x, 0), 0);
    }
    let found = find(x, attrs.int("axis"));
    if attrs.flag("keepdims") { ops::expand_dims(found, attrs.int("axis")) } else { found }
}
