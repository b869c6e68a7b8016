//! Reductions and scans.

use crate::case::Attributes;
use ms::Tensor;
use ms::ops;

/// Looks a reduction up among functions of the same name.
macro_rules! by_name {
    ($op:expr, $attrs:expr, $x:expr; $($name:ident)*; $($other:tt)*) => {
        match $op {
            $(stringify!($name) => match axes($attrs) {
                Some(axes) => ops::$name($x, axes, $attrs.flag("keepdims")),
                None => ops::$name($x, (), $attrs.flag("keepdims")),
            },)*
            $($other)*
        }
    };
}

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let result = by_name! {
        op, attrs, &x[0];
        all any max mean min prod sum;
        "argmax" => extreme(|x, axis| ops::argmax(x, axis), attrs, &x[0]),
        "argmin" => extreme(|x, axis| ops::argmin(x, axis), attrs, &x[0]),
        "std" => match axes(attrs) {
            Some(axes) => ops::std(&x[0], axes, attrs.size("ddof"), attrs.flag("keepdims")),
            None => ops::std(&x[0], (), attrs.size("ddof"), attrs.flag("keepdims")),
        },
        "var" => match axes(attrs) {
            Some(axes) => ops::var(&x[0], axes, attrs.size("ddof"), attrs.flag("keepdims")),
            None => ops::var(&x[0], (), attrs.size("ddof"), attrs.flag("keepdims")),
        },
        _ => return None,
    };
    Some(vec![result])
}

/// The axes, or nothing for all of them.
fn axes(attrs: &Attributes) -> Option<Vec<isize>> {
    attrs.has("axes").then(|| attrs.ints("axes"))
}

/// Where the extreme element stands, among all elements where no axis is named.
fn extreme(find: fn(&Tensor, isize) -> Tensor, attrs: &Attributes, x: &Tensor) -> Tensor {
    if !attrs.has("axis") {
        return find(&ops::flatten(x, 0), 0);
    }
    let found = find(x, attrs.int("axis"));
    if attrs.flag("keepdims") { ops::expand_dims(found, attrs.int("axis")) } else { found }
}
