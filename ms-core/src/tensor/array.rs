//! Concrete arrays: storage, layout, dtype.

use super::dtype::DType;
use super::element::{Element, Scalar};
use super::host_memory::try_room;
use super::layout::{Layout, Shape, count};
use super::storage::Storage;
use super::types::Type;
use crate::error::{Code, Error, OrExhausted, Result, raise};
use crate::with_element;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A strided view of shared memory. Cloning shares the memory.
#[derive(Clone, Debug)]
pub struct Array {
    storage: Arc<Storage>,
    layout: Layout,
    dtype: DType,
}

impl Array {
    /// A view of `storage`.
    ///
    /// # Safety
    /// Before an element of the view is read, its bytes have been written, and they are a value of
    /// `dtype`: a bool is 0 or 1.
    ///
    /// # Panics
    /// Unless every element of `layout` is inside `storage`.
    pub unsafe fn new(storage: Arc<Storage>, layout: Layout, dtype: DType) -> Self {
        assert!(
            layout.fits(storage.len() / dtype.size()),
            "a view {layout:?} of {dtype} lies inside its {} bytes",
            storage.len()
        );
        Self { storage, layout, dtype }
    }

    /// A row-major array whose elements are not initialised.
    ///
    /// # Safety
    /// Every element is written before any is read.
    ///
    /// # Errors
    /// [`Code::Memory`] when the system has no memory for it.
    #[inline(always)]
    pub unsafe fn uninit(shape: &[usize], dtype: DType) -> Result<Self> {
        let storage = Arc::new(Storage::uninit(bytes_of(shape, dtype)?)?);
        Ok(Self { storage, layout: Layout::contiguous(shape), dtype })
    }

    /// A row-major array of zeros.
    ///
    /// # Errors
    /// [`Code::Memory`] when the system has no memory for it.
    pub fn try_zeros(shape: &[usize], dtype: DType) -> Result<Self> {
        let storage = Arc::new(Storage::zeroed(bytes_of(shape, dtype)?)?);
        Ok(Self { storage, layout: Layout::contiguous(shape), dtype })
    }

    /// A row-major array of zeros.
    ///
    /// # Panics
    /// Raises [`Code::Memory`] when the system has no memory for it.
    #[track_caller]
    pub fn zeros(shape: &[usize], dtype: DType) -> Self {
        Self::try_zeros(shape, dtype).or_exhausted()
    }

    /// A row-major array of one value.
    ///
    /// # Panics
    /// As [`Array::zeros`].
    #[track_caller]
    pub fn full(shape: &[usize], value: Scalar, dtype: DType) -> Self {
        // SAFETY: every element is written here.
        let mut out = unsafe { Self::uninit(shape, dtype) }.or_exhausted();
        with_element!(dtype, T => out.unwritten::<T>().fill(MaybeUninit::new(T::from_scalar(value))));
        out
    }

    /// A row-major array of the elements of `data`.
    ///
    /// # Panics
    /// As [`Array::zeros`]; raises [`Code::Shape`] unless the elements fill the shape.
    #[track_caller]
    pub fn from_slice<T: Element>(shape: &[usize], data: &[T]) -> Self {
        if count(shape) != Some(data.len()) {
            raise(Error::new(Code::Shape, format!("{} elements do not fill shape {shape:?}", data.len())));
        }
        // SAFETY: every element is written here.
        let mut out = unsafe { Self::uninit(shape, T::DTYPE) }.or_exhausted();
        out.unwritten::<T>().write_copy_of_slice(data);
        out
    }

    /// The memory.
    #[inline]
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The positions of the elements.
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
        // SAFETY: the elements of an array are written as values of its dtype, wherever they are in
        // its memory: all of that was written for this dtype by the creator of the first view.
        unsafe { Self::new(self.storage.clone(), layout, self.dtype) }
    }

    /// The address of the first element, for reading.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        // The offset of an empty view may be past the block: nothing reads there.
        self.storage.as_ptr().wrapping_add(self.layout.offset().wrapping_mul(self.dtype.size()))
    }

    /// The address of the first element, for writing under the contract of [`Storage::as_mut_ptr`].
    #[inline]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.storage.as_mut_ptr().wrapping_add(self.layout.offset().wrapping_mul(self.dtype.size()))
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
        if self.numel() == 0 {
            return Ok(&[]);
        }
        // SAFETY: the dtype matches, the layout is dense and inside the storage, the elements were
        // written, and shared storage is only read.
        Ok(unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.numel()) })
    }

    /// The elements of a row-major array that is not shared, for writing; panics otherwise.
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        assert_eq!(T::DTYPE, self.dtype, "the element type is {}", self.dtype);
        assert!(self.layout.is_contiguous(), "the view is contiguous");
        assert!(Arc::get_mut(&mut self.storage).is_some_and(|it| it.is_owned()), "the storage is not shared");
        let (ptr, len) = (self.as_mut_ptr().cast(), self.numel());
        if len == 0 {
            return &mut [];
        }
        // SAFETY: the dtype matches, the layout is dense and inside the storage, the elements were
        // written, and the storage has this one owner.
        unsafe { std::slice::from_raw_parts_mut(ptr, len) }
    }

    /// The elements of a fresh array, to be written.
    fn unwritten<T: Element>(&mut self) -> &mut [MaybeUninit<T>] {
        assert_eq!(T::DTYPE, self.dtype, "the element type is {}", self.dtype);
        let len = self.numel();
        // SAFETY: the array is fresh: row-major from the start of a storage with one owner.
        unsafe { std::slice::from_raw_parts_mut(self.storage.as_mut_ptr().cast(), len) }
    }

    /// The elements in row-major order.
    pub fn iter<T: Element>(&self) -> impl ExactSizeIterator<Item = T> + '_ {
        assert_eq!(T::DTYPE, self.dtype, "the element type is {}", self.dtype);
        let base = self.storage.as_ptr().cast::<T>();
        // SAFETY: every offset of the layout is inside the storage.
        self.layout.offsets().map(move |at| unsafe { *base.add(at) })
    }

    /// The elements in row-major order, as scalars.
    ///
    /// # Panics
    /// Raises [`Code::Memory`] when the system has no memory for them.
    #[track_caller]
    pub fn scalars(&self) -> Vec<Scalar> {
        let mut out = try_room(self.numel()).or_exhausted();
        with_element!(self.dtype, T => out.extend(self.iter::<T>().map(T::to_scalar)));
        out
    }

    /// This array, or a row-major copy of a strided view.
    ///
    /// # Panics
    /// Raises [`Code::Memory`] when the system has no memory for the copy.
    #[track_caller]
    pub fn to_contiguous(&self) -> Self {
        if self.layout.is_contiguous() {
            return self.clone();
        }
        self.duplicate()
    }

    /// The raw bytes of a row-major copy.
    ///
    /// # Panics
    /// Raises [`Code::Memory`] when the system has no memory for them.
    #[track_caller]
    pub fn to_bytes(&self) -> Vec<u8> {
        let dense = self.to_contiguous();
        let mut out = try_room(dense.bytes().len()).or_exhausted();
        out.extend_from_slice(dense.bytes());
        out
    }

    /// The raw bytes of a row-major array.
    ///
    /// # Panics
    /// When the view is strided.
    pub fn bytes(&self) -> &[u8] {
        with_element!(self.dtype, T => bytemuck::cast_slice(self.as_slice::<T>().expect("the array is row-major")))
    }

    /// A row-major array from its raw bytes; for bools, every byte but zero is true.
    ///
    /// # Panics
    /// As [`Array::zeros`]; raises [`Code::Shape`] unless the bytes fill the shape.
    #[track_caller]
    pub fn from_bytes(shape: &[usize], dtype: DType, bytes: &[u8]) -> Self {
        if count(shape).and_then(|it| it.checked_mul(dtype.size())) != Some(bytes.len()) {
            raise(Error::new(Code::Shape, format!("{} bytes do not fill {dtype}{shape:?}", bytes.len())));
        }
        // SAFETY: every element is written here.
        let out = unsafe { Self::uninit(shape, dtype) }.or_exhausted();
        // SAFETY: the fresh storage holds exactly that many bytes and has one owner.
        unsafe { out.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        if dtype == DType::Bool {
            // SAFETY: as above. Bytes other than 0 and 1 are not valid `bool`s, so the elements
            // are normalised as bytes before they are read as such.
            let elements = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr(), bytes.len()) };
            elements.iter_mut().for_each(|it| *it = u8::from(*it != 0));
        }
        out
    }

    /// Whether this array is all of its memory, in row-major order, and not shared.
    pub fn is_sole(&mut self) -> bool {
        let whole = self.layout.is_contiguous() && self.numel() * self.dtype.size() == self.storage.len();
        whole && Arc::get_mut(&mut self.storage).is_some_and(|it| it.is_owned())
    }

    /// The shape, owned.
    pub fn shape_owned(&self) -> Shape {
        self.shape().into()
    }
}

/// Bytes of a row-major array.
///
/// # Errors
/// [`Code::Memory`] when the address space has no room for so many.
#[inline]
fn bytes_of(shape: &[usize], dtype: DType) -> Result<usize> {
    match count(shape).and_then(|it| it.checked_mul(dtype.size())) {
        Some(bytes) => Ok(bytes),
        None => Err(Error::new(Code::Memory, format!("no memory holds {dtype}{shape:?}"))),
    }
}
