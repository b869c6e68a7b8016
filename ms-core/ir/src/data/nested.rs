//! Nested arrays of Rust's numbers.

use super::element::Element;
use super::layout::Shape;

/// Numbers, and nested arrays of them: rectangular by their Rust type.
///
/// ```
/// use ms_core::Tensor;
/// let x = Tensor::from([[1u8, 2], [3, 4]]);
/// assert_eq!((x.shape(), x.to_vec::<u8>()), (&[2, 2][..], vec![1, 2, 3, 4]));
/// ```
pub trait Nested {
    /// The type of the innermost elements.
    type Item: Element;

    /// Appends the sizes, outermost first.
    fn sizes(shape: &mut Shape);

    /// Appends the elements in row-major order.
    fn flatten(&self, out: &mut Vec<Self::Item>);
}

impl<T: Element> Nested for T {
    type Item = T;

    fn sizes(_: &mut Shape) {}

    fn flatten(&self, out: &mut Vec<T>) {
        out.push(*self);
    }
}

impl<A: Nested, const N: usize> Nested for [A; N] {
    type Item = A::Item;

    fn sizes(shape: &mut Shape) {
        shape.push(N);
        A::sizes(shape);
    }

    fn flatten(&self, out: &mut Vec<A::Item>) {
        for inner in self {
            inner.flatten(out);
        }
    }
}
