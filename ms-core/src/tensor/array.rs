//! Concrete arrays: storage, layout, dtype.

use super::dtype::DType;
use super::element::{Element, Scalar};
use super::layout::{Layout, Shape};
use super::storage::Storage;
use super::types::Type;
use crate::error::{Code, Error, Result};
use crate::with_element;
use std::sync::Arc;

/// A strided view of shared memory. Cloning shares the memory.
#[derive(Clone, Debug)]
pub struct Array {
    storage: Arc<Storage>,
    layout: Layout,
    dtype: DType,
}

impl Array {
    /// A view of `storage`; panics unless every place that `layout` names lies inside it.
    pub fn new(storage: Arc<Storage>, layout: Layout, dtype: DType) -> Self {
        assert!(
            layout.fits(storage.len() / dtype.size()),
            "a view {layout:?} of {dtype} lies inside its {} bytes",
            storage.len()
        );
        Self { storage, layout, dtype }
    }

    /// A row-major array whose elements are still to be written.
    pub fn uninit(shape: &[usize], dtype: DType) -> Self {
        let layout = Layout::contiguous(shape);
        let storage = Arc::new(Storage::uninit(layout.numel() * dtype.size()));
        Self { storage, layout, dtype }
    }

    /// A row-major array of zeros.
    pub fn zeros(shape: &[usize], dtype: DType) -> Self {
        let layout = Layout::contiguous(shape);
        let storage = Arc::new(Storage::zeroed(layout.numel() * dtype.size()));
        Self { storage, layout, dtype }
    }

    /// A row-major array of one value.
    pub fn full(shape: &[usize], value: Scalar, dtype: DType) -> Self {
        let mut out = Self::uninit(shape, dtype);
        with_element!(dtype, T => out.as_mut_slice::<T>().fill(T::from_scalar(value)));
        out
    }

    /// A row-major array of the elements of `data`; panics unless the shape fits.
    pub fn from_slice<T: Element>(shape: &[usize], data: &[T]) -> Self {
        let mut out = Self::uninit(shape, T::DTYPE);
        out.as_mut_slice::<T>().copy_from_slice(data);
        out
    }

    /// The memory.
    #[inline]
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Where the elements lie.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes of the dimensions.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// The type: dtype and dimensions.
    pub fn ty(&self) -> Type {
        Type::of(self.dtype, self.shape())
    }

    /// Another view of the same memory; panics unless it lies inside.
    pub fn with_layout(&self, layout: Layout) -> Self {
        Self::new(self.storage.clone(), layout, self.dtype)
    }

    /// The place of the first element, for reading.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        // The offset of an empty view may lie past the block: nobody reads there.
        self.storage.as_ptr().wrapping_add(self.layout.offset() * self.dtype.size())
    }

    /// The place of the first element, for writing under the contract of [`Storage::as_mut_ptr`].
    #[inline]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.storage.as_mut_ptr().wrapping_add(self.layout.offset() * self.dtype.size())
    }

    /// The elements of a row-major array.
    ///
    /// # Errors
    /// [`Code::DType`] when `T` is not the element type, [`Code::Argument`] when the view is strided.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        if T::DTYPE != self.dtype {
            return Err(Error::new(Code::DType, format!("elements are {}, not {}", self.dtype, T::DTYPE)));
        }
        if !self.layout.is_contiguous() {
            return Err(Error::new(Code::Argument, "the view is not contiguous"));
        }
        // SAFETY: the dtype matches, the layout is dense and inside the storage, and shared
        // storage is only read.
        Ok(unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.numel()) })
    }

    /// The elements of a row-major array that nobody shares, for writing; panics otherwise.
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        assert_eq!(T::DTYPE, self.dtype, "the element type is {}", self.dtype);
        assert!(self.layout.is_contiguous(), "the view is contiguous");
        assert!(Arc::get_mut(&mut self.storage).is_some(), "the storage is not shared");
        let (ptr, len) = (self.as_mut_ptr().cast(), self.numel());
        // SAFETY: the dtype matches, the layout is dense and inside the storage, and the
        // storage has this one owner.
        unsafe { std::slice::from_raw_parts_mut(ptr, len) }
    }

    /// The elements in row-major order.
    pub fn iter<T: Element>(&self) -> impl ExactSizeIterator<Item = T> + '_ {
        assert_eq!(T::DTYPE, self.dtype, "the element type is {}", self.dtype);
        let base = self.storage.as_ptr().cast::<T>();
        // SAFETY: every place that the layout names lies inside the storage.
        self.layout.offsets().map(move |at| unsafe { *base.add(at) })
    }

    /// The elements in row-major order, as scalars.
    pub fn scalars(&self) -> Vec<Scalar> {
        with_element!(self.dtype, T => self.iter::<T>().map(T::to_scalar).collect())
    }

    /// This array, or a row-major copy of a strided view.
    pub fn to_contiguous(&self) -> Self {
        if self.layout.is_contiguous() {
            return self.clone();
        }
        self.duplicate()
    }

    /// The raw bytes of a row-major copy.
    pub fn to_bytes(&self) -> Vec<u8> {
        let dense = self.to_contiguous();
        let bytes = dense.numel() * self.dtype.size();
        // SAFETY: a contiguous array of `numel` elements covers that many bytes.
        unsafe { std::slice::from_raw_parts(dense.as_ptr(), bytes) }.to_vec()
    }

    /// A row-major array from its raw bytes, of which every one but zero is a true bool; panics
    /// unless their number fits.
    pub fn from_bytes(shape: &[usize], dtype: DType, bytes: &[u8]) -> Self {
        let out = Self::uninit(shape, dtype);
        assert_eq!(bytes.len(), out.numel() * dtype.size(), "the bytes fill the shape");
        // SAFETY: the fresh storage holds exactly that many bytes and has one owner.
        unsafe { out.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        if dtype == DType::Bool {
            // SAFETY: as above. Other bytes than 0 and 1 are no `bool`, so that the elements
            // are mended as bytes before anyone reads them.
            let elements = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr(), bytes.len()) };
            elements.iter_mut().for_each(|it| *it = u8::from(*it != 0));
        }
        out
    }

    /// Whether this array is all of its memory, in row-major order, and nobody else can see it.
    pub fn is_sole(&mut self) -> bool {
        let whole = self.layout.is_contiguous() && self.numel() * self.dtype.size() == self.storage.len();
        whole && Arc::get_mut(&mut self.storage).is_some_and(|it| it.is_owned())
    }

    /// The shape, owned.
    pub fn shape_owned(&self) -> Shape {
        self.shape().into()
    }
}
