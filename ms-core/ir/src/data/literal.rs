//! Defines constant data that is compared and hashed by content.

use super::array::Array;
use super::dtype::DType;
use super::element::Scalar;
use super::layout::Shape;
use crate::error::{Code, Error, Result};
use std::sync::Arc;

/// A constant array as plain bytes, row-major.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Literal {
    dtype: DType,
    shape: Shape,
    bytes: Arc<[u8]>,
}

impl Literal {
    /// Copies the content of `array`.
    ///
    /// # Errors
    /// See [`Array::on_host`].
    pub fn from_array(array: &Array) -> Result<Self> {
        Ok(Self { dtype: array.dtype(), shape: array.shape_owned(), bytes: array.on_host()?.to_bytes().into() })
    }

    /// A zero-dimensional constant.
    pub fn scalar(value: Scalar, dtype: DType) -> Self {
        let bits = value.to_bits(dtype).to_le_bytes();
        Self { dtype, shape: Shape::new(), bytes: bits[..dtype.size()].into() }
    }

    /// A constant from the raw bytes of its elements, row-major.
    ///
    /// # Errors
    /// [`Code::Argument`] when the bytes do not fill the shape, or hold a bool that is
    /// neither 0 nor 1.
    pub fn from_bytes(shape: &[usize], dtype: DType, bytes: Vec<u8>) -> Result<Self> {
        let wanted = shape.iter().try_fold(dtype.size(), |all, &size| all.checked_mul(size));
        if wanted != Some(bytes.len()) {
            let message = format!("{} bytes do not fill {dtype}{shape:?}", bytes.len());
            return Err(Error::new(Code::Argument, message));
        }
        if dtype == DType::Bool && bytes.iter().any(|&it| it > 1) {
            return Err(Error::new(Code::Argument, "a bool is 0 or 1"));
        }
        Ok(Self { dtype, shape: shape.into(), bytes: bytes.into() })
    }

    /// A fresh array with this content.
    pub fn to_array(&self) -> Array {
        Array::from_bytes(&self.shape, self.dtype, &self.bytes)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The raw bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the value of every element, if there is one and all have the same bit pattern.
    pub fn splat(&self) -> Option<Scalar> {
        let size = self.dtype.size();
        let first = self.bytes.get(..size)?;
        if !self.bytes.chunks_exact(size).all(|it| it == first) {
            return None;
        }
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(first);
        Some(Scalar::from_bits(u64::from_le_bytes(bits), self.dtype))
    }
}
