//! Converts values to dimensions.

use super::{Dim, Dims};
use crate::data::layout::IntoShape;
use smallvec::smallvec;

/// A conversion to dimensions. Sources are shapes (see [`IntoShape`]), one [`Dim`], arrays, slices and vectors of them,
/// and tuples of sizes of both kinds, such as `(x.dim(0), 64)`.
///
/// ```
/// use ms_core::{Tensor, ops};
/// let x = Tensor::zeros([2, 3]);
/// assert_eq!(ops::zeros((x.dim(0), 64)).shape(), [2, 64]);
/// assert_eq!(ops::zeros(x.dims()).shape(), [2, 3]);
/// assert_eq!(ops::zeros(4).shape(), [4]);
/// ```
pub trait IntoDims {
    /// The dimensions.
    fn into_dims(self) -> Dims;
}

impl<S: IntoShape> IntoDims for S {
    fn into_dims(self) -> Dims {
        self.into_shape().into_iter().map(Dim::new).collect()
    }
}

impl IntoDims for Dim {
    fn into_dims(self) -> Dims {
        smallvec![self]
    }
}

impl IntoDims for Dims {
    fn into_dims(self) -> Dims {
        self
    }
}

macro_rules! into_dims {
    ($([$($generics:tt)*] $ty:ty),*) => {$(
        impl<$($generics)*> IntoDims for $ty {
            fn into_dims(self) -> Dims {
                self.iter().copied().collect()
            }
        }
    )*};
}

into_dims! { [] &Dims, [] &[Dim], [] &Vec<Dim>, [] Vec<Dim>, [const N: usize] [Dim; N], [const N: usize] &[Dim; N] }

macro_rules! tuples_into_dims {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: Into<Dim>),+> IntoDims for ($($name,)+) {
            fn into_dims(self) -> Dims {
                #[allow(non_snake_case)]
                let ($($name,)+) = self;
                smallvec![$($name.into()),+]
            }
        }
    )*};
}

tuples_into_dims! { A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H; }

/// Types that can be the shape of a reshape: dimensions, or arrays and tuples of signed integers and dimensions. One
/// `-1` is inferred.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = ops::arange(6);
/// assert_eq!(ops::reshape(&x, [2, -1]).shape(), [2, 3]);
/// assert_eq!(ops::reshape(&x, (x.dim(0), 1)).shape(), [6, 1]);
/// ```
pub trait NewShape {
    /// Returns the dimensions, of which one may be `-1`.
    fn new_dims(self) -> Dims;
}

impl<S: IntoDims> NewShape for S {
    fn new_dims(self) -> Dims {
        self.into_dims()
    }
}

macro_rules! signed_shapes {
    ($($ty:ty)*) => {$(
        impl NewShape for &[$ty] {
            fn new_dims(self) -> Dims {
                self.iter().map(|&it| Dim::signed(it as i64)).collect()
            }
        }

        impl<const N: usize> NewShape for [$ty; N] {
            fn new_dims(self) -> Dims {
                self[..].new_dims()
            }
        }
    )*};
}

signed_shapes! { i32 i64 isize }
