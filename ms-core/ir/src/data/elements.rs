//! Access to elements without their Rust type.

use super::array::Array;
use super::dtype::DType;
use super::element::{Element, Scalar};
use super::host_array::HostArray;
use crate::with_element;

/// The elements of a row-major array in host memory, in row-major order. Code that reads them as scalars is compiled
/// once, instead of for each dtype.
///
/// ```
/// use ms_core::tensor::{Array, Scalar};
/// let array = Array::from_slice(&[2], &[1i32, 2]);
/// assert_eq!(array.on_host()?.elements().get(1), Scalar::Int(2));
/// # Ok::<(), ms_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    dtype: DType,
}

/// The elements of an unshared row-major array in host memory, for writing; see [`Elements`].
///
/// ```
/// use ms_core::{DType, tensor::{Array, Scalar}};
/// let mut array = Array::zeros(&[2], DType::U8);
/// array.elements_mut().set(1, Scalar::Int(300));
/// assert_eq!(array.on_host()?.as_slice::<u8>()?, [0, 44]);
/// # Ok::<(), ms_core::Error>(())
/// ```
pub struct ElementsMut<'a> {
    bytes: &'a mut [u8],
    dtype: DType,
}

impl HostArray<'_> {
    /// Returns the elements of a row-major array as [`Elements`].
    ///
    /// # Panics
    /// Panics when the view is strided.
    pub fn elements(&self) -> Elements<'_> {
        Elements { bytes: self.bytes(), dtype: self.dtype() }
    }
}

impl Array {
    /// Returns the elements of an unshared row-major array in host memory as [`ElementsMut`].
    ///
    /// # Panics
    /// Panics for any other array.
    pub fn elements_mut(&mut self) -> ElementsMut<'_> {
        let dtype = self.dtype();
        ElementsMut { bytes: self.bytes_mut(), dtype }
    }

    /// Creates a row-major array of the scalars that `value` returns for each row-major index, converted to `dtype`.
    ///
    /// # Panics
    /// See [`Array::zeros`].
    #[track_caller]
    pub fn from_scalars(shape: &[usize], dtype: DType, value: &mut dyn FnMut(usize) -> Scalar) -> Self {
        let mut out = Self::zeros(shape, dtype);
        with_element!(dtype, T => {
            for (at, to) in out.as_mut_slice::<T>().iter_mut().enumerate() {
                *to = T::from_scalar(value(at));
            }
        });
        out
    }
}

impl Elements<'_> {
    /// Returns the element at a row-major index.
    pub fn get(&self, at: usize) -> Scalar {
        scalar(self.bytes, at, self.dtype)
    }
}

impl ElementsMut<'_> {
    /// Returns the element at a row-major index.
    pub fn get(&self, at: usize) -> Scalar {
        scalar(self.bytes, at, self.dtype)
    }

    /// Writes a scalar at a row-major index, converted to the dtype.
    pub fn set(&mut self, at: usize, value: Scalar) {
        let size = self.dtype.size();
        self.bytes[at * size..][..size].copy_from_slice(&value.to_bits(self.dtype).to_le_bytes()[..size]);
    }

    /// Copies `count` elements of `from`, from the index `first` on, to the index `at`. No bit of them changes.
    ///
    /// # Panics
    /// Panics when the dtypes differ, or an element is outside its array.
    pub fn copy(&mut self, at: usize, from: Elements<'_>, first: usize, count: usize) {
        assert_eq!(self.dtype, from.dtype, "source and target have one dtype");
        let size = self.dtype.size();
        self.bytes[at * size..][..count * size].copy_from_slice(&from.bytes[first * size..][..count * size]);
    }
}

fn scalar(bytes: &[u8], at: usize, dtype: DType) -> Scalar {
    let (size, mut word) = (dtype.size(), [0; 8]);
    word[..size].copy_from_slice(&bytes[at * size..][..size]);
    Scalar::from_bits(u64::from_le_bytes(word), dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_every_dtype_are_read_written_and_copied() {
        for dtype in DType::ALL {
            let number = |at: usize| Scalar::Int(at as i64 % 2);
            let from = Array::from_scalars(&[2, 3], dtype, &mut |at| number(at)).into_host().expect("it is there");
            let mut to = Array::zeros(&[4], dtype);
            let mut elements = to.elements_mut();
            elements.copy(2, from.elements(), 2, 2);
            elements.set(0, Scalar::Int(1));
            let read: Vec<f64> = (0..4).map(|at| elements.get(at).as_f64()).collect();
            assert_eq!(read, [1.0, 0.0, 0.0, 1.0], "{dtype}");
            assert_eq!(from.elements().get(5).as_f64(), 1.0, "{dtype}");
        }
        Array::zeros(&[0], DType::F32).elements_mut().copy(
            0,
            Array::zeros(&[0], DType::F32).on_host().expect("host").elements(),
            0,
            0,
        );
    }
}
