//! Creates tensors from Rust's numbers, arrays and vectors, and by the `tensor!` literal.

use super::tensor::Tensor;
use ms_ir::data::{Array, DType, Element, Nested, Scalar, Shape, held_by_itself, own_dtype};
use ms_ir::error::OrRaise;

fn parts<A: Nested>(data: &A) -> (Shape, Vec<A::Item>) {
    let (mut shape, mut elements) = (Shape::new(), Vec::new());
    A::sizes(&mut shape);
    elements.reserve(shape.iter().product());
    data.flatten(&mut elements);
    (shape, elements)
}

impl Tensor {
    /// Creates the tensor of nested arrays with the numbers' Rust type. The types of numbers without a suffix are
    /// exceptions: f64 becomes f32, and i32 becomes i64.
    ///
    /// # Panics
    /// Raises [`Code::DType`](crate::Code::DType) for an f64 beyond the range of f32.
    #[track_caller]
    pub fn literal<A: Nested>(data: A) -> Self {
        Self::literal_of(data, Suffixes::default())
    }

    /// Creates a tensor like [`Tensor::literal`] for items written with these suffixes, which preserve their type. It
    /// is the expansion of [`tensor!`](crate::tensor!).
    #[doc(hidden)]
    #[track_caller]
    pub fn literal_of<A: Nested>(data: A, written: Suffixes) -> Self {
        let (shape, elements) = parts(&data);
        let dtype = match A::Item::DTYPE {
            DType::F64 if written.f64 => DType::F64,
            DType::I32 if written.i32 => DType::I32,
            other => own_dtype(other),
        };
        let (mut held, mut elements) = (Ok(()), elements.into_iter());
        let out = Array::from_scalars(&shape, dtype, &mut |_| {
            let element = elements.next().expect("the elements fill the shape").to_scalar();
            if dtype != A::Item::DTYPE && held.is_ok() {
                held = held_by_itself(element, dtype);
            }
            element
        });
        held.map_err(|it| it.with_op("tensor!")).or_raise();
        Self::placed(out).or_raise()
    }

    /// Creates a one-dimensional tensor of `data`.
    ///
    /// ```
    /// use ms_core::Tensor;
    /// assert_eq!(Tensor::from_vec(vec![1u8, 2, 3]).shape(), [3]);
    /// ```
    pub fn from_vec<T: Element>(data: Vec<T>) -> Self {
        Self::from(data)
    }
}

/// Creates a tensor from literal numbers: `tensor![1., 2.]` has one axis, `tensor![[1, 2], [3, 4]]` two.
///
/// Unsuffixed floats become f32, unsuffixed integers i64, `true` and `false` bool. A suffix names another dtype:
/// `tensor![1u8]`, `tensor![1f64]`. Variables keep their type, except for f64 and i32, which are also the types of
/// unsuffixed numbers. A Rust type after a semicolon is the type of the numbers and of the tensor: `tensor![x, y;
/// f64]`. Ragged rows do not compile.
///
/// # Panics
/// Raises [`Code::DType`](crate::Code::DType) for a number that exceeds the range of f32 and has that dtype.
///
/// ```
/// use ms_core::{DType, tensor};
/// assert_eq!(tensor![[1., 2.], [3., 4.]].shape(), [2, 2]);
/// assert_eq!(tensor![1, 2].dtype(), DType::I64);
/// assert_eq!(tensor![1., 2.; f64].dtype(), DType::F64);
/// assert_eq!(tensor![[1f64, 2.], [3., 4.]].dtype(), DType::F64);
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
        $crate::Tensor::literal_of([$($item),+], const { $crate::tensor::Suffixes::of(stringify!($($item),+)) })
    };
    ($($item:expr),+ ; $ty:ty) => {
        $crate::Tensor::of_items::<$ty, _>([$($item),+])
    };
}

/// The suffixes of the numbers in the source text of an expression, for the two types that numbers without a suffix
/// also have.
#[doc(hidden)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Suffixes {
    f64: bool,
    i32: bool,
}

impl Suffixes {
    /// Finds the suffixes in `text`.
    #[must_use]
    pub const fn of(text: &str) -> Self {
        let text = text.as_bytes();
        Self { f64: has_number(text, b"f64"), i32: has_number(text, b"i32") }
    }
}

/// Returns whether a number in `text` ends with `suffix`.
const fn has_number(text: &[u8], suffix: &[u8; 3]) -> bool {
    const fn is_word(it: u8) -> bool {
        it.is_ascii_alphanumeric() || it == b'_'
    }
    const fn is_point(text: &[u8], first: usize, at: usize) -> bool {
        text[at] == b'.' && text[first].is_ascii_digit() && at + 1 < text.len() && text[at + 1].is_ascii_digit()
    }
    let mut at = 0;
    while at < text.len() {
        let first = at;
        while at < text.len() && (is_word(text[at]) || is_point(text, first, at)) {
            at += 1;
        }
        let number = at > first + 3 && text[first].is_ascii_digit();
        let hexadecimal = number && text[first + 1] == b'x';
        let ends = number && text[at - 3] == suffix[0] && text[at - 2] == suffix[1] && text[at - 1] == suffix[2];
        // The digits of a hexadecimal number include `f`, but it is not a float.
        if ends && !(hexadecimal && suffix[0] == b'f') {
            return true;
        }
        at += 1;
    }
    false
}

impl Tensor {
    /// Creates the tensor of nested arrays of the element type `T`.
    #[track_caller]
    pub fn of_items<T: Element, A: Nested<Item = T>>(data: A) -> Self {
        let (shape, elements) = parts(&data);
        Self::placed(Array::from_slice(&shape, &elements)).or_raise()
    }
}

macro_rules! from_numbers {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Tensor {
            /// Creates a zero-dimensional tensor of exactly this type.
            #[track_caller]
            fn from(value: $ty) -> Self {
                Self::placed(Array::from_slice(&[], &[value])).or_raise()
            }
        }
    )*};
}

from_numbers! { bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 half::f16 half::bf16 }

impl<A: Nested, const N: usize> From<[A; N]> for Tensor {
    /// Creates the tensor of nested arrays. Their Rust type is the dtype.
    #[track_caller]
    fn from(data: [A; N]) -> Self {
        Self::of_items(data)
    }
}

impl<T: Element> From<Vec<T>> for Tensor {
    #[track_caller]
    fn from(data: Vec<T>) -> Self {
        Self::from(&*data)
    }
}

impl<T: Element> From<&[T]> for Tensor {
    #[track_caller]
    fn from(data: &[T]) -> Self {
        Self::from_slice([data.len()], data)
    }
}

impl<T: Element> From<&Vec<T>> for Tensor {
    #[track_caller]
    fn from(data: &Vec<T>) -> Self {
        Self::from(&**data)
    }
}

impl From<Scalar> for Tensor {
    /// Creates a zero-dimensional tensor of bool, i64 or f32, by the kind of the number.
    fn from(value: Scalar) -> Self {
        Self::placed(Array::full(&[], value, value.default_dtype())).or_raise()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::error::Code;

    #[test]
    fn literals_have_the_dtype_of_weak_scalars() {
        fn width(it: i32) -> f64 {
            it.into()
        }
        let x1f64 = 1.0;
        let cases = [
            (tensor![[1., 2.], [3., 4.]], "f32[2, 2]"),
            (tensor![1, 2, 3], "i64[3]"),
            (tensor![true, false], "bool[2]"),
            (tensor![[[[[[1u8]]]]]], "u8[1, 1, 1, 1, 1, 1]"),
            (tensor![1f64], "f64[1]"),
            (tensor![[1.5_f64, 2.], [-3e-5f64, 4.]], "f64[2, 2]"),
            (tensor![1, -2i32], "i32[2]"),
            (tensor![0x1f64, 0], "i64[2]"),
            (tensor![0x1fi32, 0], "i32[2]"),
            (tensor![1.0f64.sqrt(), 2.0], "f64[2]"),
            (tensor![width(1i32), 2.0], "f32[2]"),
            (tensor![width(1), x1f64], "f32[2]"),
            (tensor![(1.0, 2.0).0, 2.0], "f32[2]"),
            (tensor![1f32, 2.], "f32[2]"),
            (tensor![1i64, 2u8 as i64], "i64[2]"),
            (Tensor::scalar(1.5f64), "f32[]"),
            (Tensor::scalar(7i32), "i64[]"),
            (Tensor::scalar(7usize), "i64[]"),
            (Tensor::scalar(7u8), "u8[]"),
            (Tensor::scalar(7u64), "u64[]"),
            (Tensor::scalar(half::f16::ONE), "f16[]"),
            (Tensor::scalar(f64::INFINITY), "f32[]"),
            (Tensor::full([2], 7u8), "u8[2]"),
            (Tensor::full([2], 7), "i64[2]"),
            (Tensor::full([2], Scalar::UInt(7)), "i64[2]"),
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

    #[test]
    fn numbers_that_their_dtype_does_not_hold_are_refused() {
        type Case = (fn() -> Tensor, &'static str);
        let cases: [Case; 5] = [
            (|| Tensor::scalar(f64::MAX), "1.7976931348623157e308 is outside the range of f32"),
            (|| tensor![1.0, -1e39], "-1e39 is outside the range of f32"),
            (|| Tensor::full([2], 1e39), "1e39 is outside the range of f32"),
            (|| Tensor::scalar(usize::MAX), "18446744073709551615 is outside the range of i64"),
            (|| Tensor::full((), usize::MAX), "18446744073709551615 is outside the range of i64"),
        ];
        for (make, want) in cases {
            let error = crate::catch(make).expect_err(want);
            assert!(error.code() == Code::DType && error.to_string().contains(want), "{error}");
        }
    }

    /// The array of a number of any dtype has its bits, and one tensor has one array.
    #[test]
    fn numbers_are_arrays_on_demand() {
        for dtype in DType::ALL {
            let tensor = Tensor::from_number(Scalar::Int(1), dtype);
            assert_eq!((tensor.dtype(), tensor.rank(), tensor.numel()), (dtype, 0, 1));
            let array = tensor.as_array().expect("a number has an array");
            assert_eq!((array.dtype(), array.shape()), (dtype, &[][..]));
            assert_eq!(
                array.on_host().expect("it is on the host").bytes(),
                &Scalar::Int(1).to_bits(dtype).to_le_bytes()[..dtype.size()]
            );
            let clone = tensor.clone();
            assert_eq!(clone.identity(), tensor.identity());
            assert_eq!(clone.as_array().map(Array::device_ptr), Some(array.device_ptr()));
            assert_ne!(tensor.fresh().identity(), tensor.identity());
        }
        let nan = f32::from_bits(0xffc0_1234);
        let tensor = Tensor::from_number(Scalar::from_bits(nan.to_bits().into(), DType::F32), DType::F32);
        assert!(tensor.item::<f32>().is_nan());
    }
}
