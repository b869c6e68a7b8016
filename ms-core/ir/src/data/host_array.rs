//! Reads the elements of arrays in host memory.

use super::array::Array;
use super::element::{Element, Scalar};
use super::host_memory::try_room;
use super::memory::MemorySpace;
use crate::error::{Code, Error, OrExhausted, Result};
use crate::with_element;
use std::borrow::Cow;
use std::ops::Deref;

/// An array in host memory with readable elements: see [`Array::on_host`].
#[derive(Clone, Debug)]
pub struct HostArray<'a>(Cow<'a, Array>);

impl Deref for HostArray<'_> {
    type Target = Array;

    #[inline]
    fn deref(&self) -> &Array {
        &self.0
    }
}

impl Array {
    /// Returns the elements in host memory: this array if it is there, else a copy. The copy waits for the work that
    /// computes the array.
    ///
    /// # Errors
    /// [`Code::Memory`] when the system has no memory for the copy; the errors of the device, and of the work that
    /// precedes the copy.
    ///
    /// ```
    /// use ms_core::tensor::Array;
    /// let array = Array::from_slice(&[2], &[1i32, 2]);
    /// assert_eq!(array.on_host()?.as_slice::<i32>()?, [1, 2]);
    /// # Ok::<(), ms_core::Error>(())
    /// ```
    #[inline]
    pub fn on_host(&self) -> Result<HostArray<'_>> {
        match self.space() {
            MemorySpace::Host => Ok(HostArray::borrowed(self)),
            MemorySpace::Device(_) => self.copied_to_host().map(HostArray::owned),
        }
    }

    /// Converts an array without other uses like [`Array::on_host`].
    ///
    /// # Errors
    /// See [`Array::on_host`].
    pub fn into_host(self) -> Result<HostArray<'static>> {
        Ok(HostArray::owned(self.to_space(MemorySpace::Host)?))
    }
}

impl<'a> HostArray<'a> {
    /// Borrows an array in host memory.
    #[inline]
    fn borrowed(array: &'a Array) -> Self {
        debug_assert!(array.space().is_host());
        Self(Cow::Borrowed(array))
    }

    /// Wraps an array in host memory.
    fn owned(array: Array) -> Self {
        assert!(array.space().is_host(), "the elements are on the host");
        Self(Cow::Owned(array))
    }

    /// Returns the array itself.
    pub fn into_array(self) -> Array {
        self.0.into_owned()
    }

    /// Returns the elements of a row-major array.
    ///
    /// # Errors
    /// [`Code::DType`] when `T` is not the element type, [`Code::Argument`] when the view is strided.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        if T::DTYPE != self.dtype() {
            return Err(Error::new(Code::DType, format!("elements are {}, not {}", self.dtype(), T::DTYPE)));
        }
        if !self.layout().is_contiguous() {
            return Err(Error::new(Code::Argument, "the view is not contiguous"));
        }
        if self.numel() == 0 {
            return Ok(&[]);
        }
        // SAFETY: the dtype matches, the layout is dense and inside the storage, which is host memory. The elements are
        // initialised, and shared storage is only read.
        Ok(unsafe { std::slice::from_raw_parts(self.device_ptr().cast(), self.numel()) })
    }

    /// Returns the elements in row-major order.
    pub fn iter<T: Element>(&self) -> impl ExactSizeIterator<Item = T> + '_ {
        assert_eq!(T::DTYPE, self.dtype(), "the element type is {}", self.dtype());
        let base = self.storage().device_ptr().cast::<T>();
        // SAFETY: every offset of the layout is inside the storage, which is initialised host memory, and `T` is its
        // dtype.
        self.layout().offsets().map(move |at| unsafe { *base.add(at) })
    }

    /// Returns the element at an offset in the storage.
    pub(super) fn at<T: Element>(&self, offset: usize) -> T {
        assert!(
            T::DTYPE == self.dtype() && offset < self.storage().len() / size_of::<T>(),
            "the storage has the element"
        );
        // SAFETY: the offset is inside the storage, which is host memory and fully initialised.
        unsafe { *self.storage().device_ptr().cast::<T>().add(offset) }
    }

    /// Returns the elements in row-major order as scalars.
    ///
    /// # Panics
    /// Raises [`Code::Memory`] when the system has no memory for them.
    #[track_caller]
    pub fn scalars(&self) -> Vec<Scalar> {
        let mut out = try_room(self.numel()).or_exhausted();
        with_element!(self.dtype(), T => out.extend(self.iter::<T>().map(T::to_scalar)));
        out
    }

    /// Returns this array, or a row-major copy of a strided view.
    ///
    /// # Panics
    /// Raises [`Code::Memory`] when the system has no memory for the copy.
    #[track_caller]
    pub fn to_contiguous(&self) -> Array {
        match self.layout().is_contiguous() {
            true => (**self).clone(),
            false => self.duplicate(),
        }
    }

    /// Returns the raw bytes of a row-major copy.
    ///
    /// # Panics
    /// Raises [`Code::Memory`] when the system has no memory for them.
    #[track_caller]
    pub fn to_bytes(&self) -> Vec<u8> {
        let dense = self.to_contiguous();
        let dense = HostArray::borrowed(&dense);
        let mut out = try_room(dense.bytes().len()).or_exhausted();
        out.extend_from_slice(dense.bytes());
        out
    }

    /// Returns the raw bytes of a row-major array.
    ///
    /// # Panics
    /// Panics when the view is strided.
    pub fn bytes(&self) -> &[u8] {
        assert!(self.layout().is_contiguous(), "the array is row-major");
        if self.numel() == 0 {
            // Aligned like elements of every dtype, since callers cast the bytes to elements.
            return bytemuck::cast_slice::<u64, u8>(&[]);
        }
        // SAFETY: the layout is dense and inside the storage, which is host memory. The elements are initialised, and
        // shared storage is only read.
        unsafe { std::slice::from_raw_parts(self.device_ptr(), self.numel() * self.dtype().size()) }
    }
}
