//! Tensors from Rust's numbers, arrays and vectors, and the `tensor!` literal.

use super::array::Array;
use super::dtype::DType;
use super::element::{Element, Scalar};
use super::layout::Shape;
use super::tensor::Tensor;

/// Numbers, and arrays of arrays of them: rectangular by their Rust type.
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

fn parts<A: Nested>(data: &A) -> (Shape, Vec<A::Item>) {
    let (mut shape, mut elements) = (Shape::new(), Vec::new());
    A::sizes(&mut shape);
    elements.reserve(shape.iter().product());
    data.flatten(&mut elements);
    (shape, elements)
}

impl Tensor {
    /// The tensor of nested arrays with the dtype that weak scalars take: `f64` gives f32 and
    /// `i32` gives i64, as unsuffixed literals are of these Rust types; others stay.
    ///
    /// This is what [`tensor!`](crate::tensor!) expands to; use `Tensor::from` to keep f64 and i32.
    pub fn literal<A: Nested>(data: A) -> Self {
        let (shape, elements) = parts(&data);
        let dtype = match A::Item::DTYPE {
            DType::F64 => DType::F32,
            DType::I32 => DType::I64,
            other => other,
        };
        let mut out = Array::uninit(&shape, dtype);
        crate::with_element!(dtype, T => {
            for (to, from) in out.as_mut_slice::<T>().iter_mut().zip(elements) {
                *to = T::from_scalar(from.to_scalar());
            }
        });
        Self::from_array(out)
    }

    /// A one-dimensional tensor of `data`.
    pub fn from_vec<T: Element>(data: Vec<T>) -> Self {
        Self::from(data)
    }
}

/// A tensor from literal numbers: `tensor![1., 2.]` has one axis, `tensor![[1, 2], [3, 4]]` two.
///
/// Unsuffixed floats make f32, unsuffixed integers i64, `true` and `false` bool. A Rust type
/// after a semicolon asks for another: `tensor![1., 2.; f64]`. Ragged rows do not compile.
///
/// ```
/// use ms_core::{DType, tensor};
/// assert_eq!(tensor![[1., 2.], [3., 4.]].shape(), [2, 2]);
/// assert_eq!(tensor![1, 2].dtype(), DType::I64);
/// assert_eq!(tensor![1., 2.; f64].dtype(), DType::F64);
/// ```
///
/// ```compile_fail
/// ms_core::tensor![[1., 2.], [3.]];
/// ```
#[macro_export]
macro_rules! tensor {
    () => {
        $crate::Tensor::literal::<[f32; 0]>([])
    };
    ($($item:expr),+ $(,)?) => {
        $crate::Tensor::literal([$($item),+])
    };
    ($($item:expr),+ ; $ty:ty) => {
        $crate::Tensor::of_items::<$ty, _>([$($item),+])
    };
}

impl Tensor {
    /// The tensor of nested arrays whose numbers are of the Rust type `T`.
    pub fn of_items<T: Element, A: Nested<Item = T>>(data: A) -> Self {
        let (shape, elements) = parts(&data);
        Self::from_array(Array::from_slice(&shape, &elements))
    }
}

macro_rules! from_numbers {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Tensor {
            /// A zero-dimensional tensor of exactly this type.
            fn from(value: $ty) -> Self {
                Self::from_array(Array::from_slice(&[], &[value]))
            }
        }
    )*};
}

from_numbers! { bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 half::f16 half::bf16 }

impl<A: Nested, const N: usize> From<[A; N]> for Tensor {
    /// The tensor of nested arrays; their Rust type is the dtype.
    fn from(data: [A; N]) -> Self {
        Self::of_items(data)
    }
}

impl<T: Element> From<Vec<T>> for Tensor {
    fn from(data: Vec<T>) -> Self {
        Self::from(&*data)
    }
}

impl<T: Element> From<&[T]> for Tensor {
    fn from(data: &[T]) -> Self {
        Self::from_array(Array::from_slice(&[data.len()], data))
    }
}

impl<T: Element> From<&Vec<T>> for Tensor {
    fn from(data: &Vec<T>) -> Self {
        Self::from(&**data)
    }
}

impl From<Scalar> for Tensor {
    fn from(value: Scalar) -> Self {
        Self::scalar(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_the_dtype_of_weak_scalars() {
        let cases = [
            (tensor![[1., 2.], [3., 4.]], "f32[2, 2]"),
            (tensor![1, 2, 3], "i64[3]"),
            (tensor![true, false], "bool[2]"),
            (tensor![[[[[[1u8]]]]]], "u8[1, 1, 1, 1, 1, 1]"),
            (tensor![1., 2.; f64], "f64[2]"),
            (tensor![[1], [2]; i32], "i32[2, 1]"),
            (tensor![], "f32[0]"),
            (Tensor::from(2.5f64), "f64[]"),
            (Tensor::from([[1i32, 2]]), "i32[1, 2]"),
            (Tensor::from(vec![half::f16::ONE]), "f16[1]"),
            (Tensor::from(Scalar::Float(1.0)), "f32[]"),
        ];
        for (tensor, ty) in cases {
            assert_eq!(tensor.ty().to_string(), ty);
        }
        assert_eq!(tensor![[1., 2.], [3., 4.]].to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
    }
}
