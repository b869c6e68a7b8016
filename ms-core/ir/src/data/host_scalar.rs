//! Represents host scalars as operands.

use super::array::Array;
use super::dtype::DType;
use super::element::Scalar;
use std::sync::OnceLock;

/// A host scalar as a zero-dimensional tensor.
///
/// Kernels take its bits in the argument block of a call. Its array is created on first use and then cached.
#[derive(Debug)]
pub struct HostScalar {
    bits: u64,
    dtype: DType,
    array: OnceLock<Box<Array>>,
}

impl HostScalar {
    /// Converts a number to `dtype`.
    pub fn new(value: Scalar, dtype: DType) -> Self {
        Self::from_bits(value.to_bits(dtype), dtype)
    }

    fn from_bits(bits: u64, dtype: DType) -> Self {
        Self { bits, dtype, array: OnceLock::new() }
    }

    /// Returns the bits of the dtype, in the low bytes.
    #[inline]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the number as an array without dimensions.
    ///
    /// # Panics
    /// Raises [`Code::Memory`](crate::Code::Memory) when the system has no memory for it.
    #[cold]
    pub fn array(&self) -> &Array {
        let bytes = self.bits.to_le_bytes();
        self.array.get_or_init(|| Box::new(Array::from_bytes(&[], self.dtype, &bytes[..self.dtype.size()])))
    }
}

/// A copy has a separate array.
impl Clone for HostScalar {
    fn clone(&self) -> Self {
        Self::from_bits(self.bits, self.dtype)
    }
}
