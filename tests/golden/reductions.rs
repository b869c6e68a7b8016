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
        _ => return None,
    };
    Some(vec![result])
}

/// The axes, or nothing for all of them.
fn axes(attrs: &Attributes) -> Option<Vec<isize>> {
    attrs.has("axes").then(|| attrs.ints("axes"))
}
