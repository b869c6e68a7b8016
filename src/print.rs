//! Printing from eager and compiled code.

/// Prints a line with the values of tensors, parameters and host values: [`ops::print`](crate::ops::print) with its
/// values as arguments. Compiled code prints the line at every run, in program order.
///
/// ```
/// use ms::prelude::*;
/// #[jit]
/// fn twice(x: &Tensor) -> Tensor {
///     ms::print!("x is {}", x);
///     x * 2.0
/// }
/// let (y, lines) = ops::capture_prints(|| twice(&tensor![1.0, 2.0]));
/// assert_eq!((y.to_vec::<f32>(), lines), (vec![2.0, 4.0], vec!["x is [1. 2.]".to_owned()]));
/// ```
#[macro_export]
macro_rules! print {
    ($text:expr $(, $value:expr)* $(,)?) => {
        $crate::ops::print($text, &[$(&$value as &dyn $crate::ops::Show),*])
    };
}
