//! Concrete arrays: storage, layout, dtype.

use super::device::Device;
use super::dtype::DType;
use super::element::{Element, Scalar};
use super::host_array::HostArray;
use super::layout::{Layout, Shape, count};
use super::memory::MemorySpace;
use super::storage::Storage;
use super::types::Type;
use crate::error::{Code, Error, OrExhausted, Result, in_op, raise};
use crate::with_element;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A strided view of shared memory of some device. Cloning shares the memory.
///
/// [`Array::on_host`] gives its elements. What this type makes from elements is in memory of the host
/// ([`Array::to_space`] copies it to a device).
///
/// ```
/// use ms_core::tensor::{Array, Tensor};
/// let array = Array::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
/// let columns = array.with_layout(array.layout().permute(&[1, 0]));
/// assert_eq!(Tensor::from_array(columns).to_vec::<f32>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
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

    /// A row-major array in memory of the host whose elements are not initialised.
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

    /// [`Array::uninit`] in any memory.
    ///
    /// # Safety
    /// As [`Array::uninit`].
    ///
    /// # Errors
    /// As [`Array::uninit`].
    #[inline(always)]
    pub unsafe fn uninit_in(space: MemorySpace, shape: &[usize], dtype: DType) -> Result<Self> {
        let storage = Arc::new(Storage::uninit_in(space, bytes_of(shape, dtype)?)?);
        Ok(Self { storage, layout: Layout::contiguous(shape), dtype })
    }

    /// An array of a layout that is row-major, whose elements are not initialised.
    ///
    /// # Safety
    /// As [`Self::uninit`].
    ///
    /// # Errors
    /// [`Code::Memory`] when there is no memory for it; those of the device.
    #[doc(hidden)]
    pub unsafe fn uninit_as(space: MemorySpace, layout: &Layout, dtype: DType) -> Result<Self> {
        let storage = Arc::new(Storage::uninit_in(space, bytes_of(layout.shape(), dtype)?)?);
        Ok(Self { storage, layout: layout.clone(), dtype })
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

    /// The memory that it lies in.
    #[inline]
    pub fn space(&self) -> MemorySpace {
        self.storage.space()
    }

    /// The device that it is on.
    pub fn device(&self) -> Device {
        self.space().device()
    }

    /// The elements in memory of the host: this array if it is there, else a copy, after the work that
    /// computes it.
    ///
    /// # Errors
    /// [`Code::Memory`] when the system has no memory for the copy; those of the device, and of the
    /// work that is waited for.
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

    /// [`Array::on_host`] of an array that is not used otherwise.
    ///
    /// # Errors
    /// As [`Array::on_host`].
    pub fn into_host(self) -> Result<HostArray<'static>> {
        Ok(HostArray::owned(self.to_space(MemorySpace::Host)?))
    }

    /// The part of the memory that the elements are in, copied to the host.
    #[cold]
    fn copied_to_host(&self) -> Result<Self> {
        let size = self.dtype.size();
        let (first, end) = self.layout.range();
        let storage = Arc::new(self.storage.copied_to_host(first * size, (end - first) * size)?);
        let offset = if first < end { self.layout.offset() - first } else { 0 };
        let layout = Layout::new(self.shape().into(), self.layout.strides().into(), offset);
        Ok(Self { storage, layout, dtype: self.dtype })
    }

    /// The array in this memory: a copy, unless it lies there.
    ///
    /// # Errors
    /// [`Code::Memory`] when there is no memory for the copy; those of both devices, and of the work
    /// that is waited for.
    pub fn to_space(&self, space: MemorySpace) -> Result<Self> {
        match (self.space(), space) {
            (MemorySpace::Host, MemorySpace::Host) => Ok(self.clone()),
            (MemorySpace::Device(_), MemorySpace::Host) => self.copied_to_host(),
            (MemorySpace::Device(from), MemorySpace::Device(to)) if from.device() == to.device() => Ok(self.clone()),
            _ => {
                let dense = in_op(|| Ok(self.on_host()?.to_contiguous()))?;
                let storage = Arc::new(Storage::from_host(space, dense.on_host()?.bytes())?);
                Ok(Self { storage, layout: Layout::contiguous(self.shape()), dtype: self.dtype })
            }
        }
    }

    /// The address of the first element on the array's device, for backends: a pointer of the host only
    /// if the array lies there. Writers uphold the contract of [`Storage::device_ptr`].
    #[inline]
    pub fn device_ptr(&self) -> *mut u8 {
        // The offset of an empty view may be past the block: nothing reads there.
        self.storage.device_ptr().wrapping_add(self.layout.offset().wrapping_mul(self.dtype.size()))
    }

    /// The elements of a row-major array in memory of the host that is not shared, for writing.
    ///
    /// # Panics
    /// For any other array.
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        assert_eq!(T::DTYPE, self.dtype, "the element type is {}", self.dtype);
        assert!(self.layout.is_contiguous(), "the view is contiguous");
        let is_writable = |it: &mut Storage| it.is_host() && it.is_writable();
        assert!(Arc::get_mut(&mut self.storage).is_some_and(is_writable), "the storage is the host's and not shared");
        let (ptr, len) = (self.device_ptr().cast(), self.numel());
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
        // SAFETY: the array is fresh and in memory of the host: row-major from the start of a storage with one owner.
        unsafe { std::slice::from_raw_parts_mut(self.storage.device_ptr().cast(), len) }
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
        unsafe { out.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        if dtype == DType::Bool {
            // SAFETY: as above. Bytes other than 0 and 1 are not valid `bool`s, so the elements
            // are normalised as bytes before they are read as such.
            let elements = unsafe { std::slice::from_raw_parts_mut(out.device_ptr(), bytes.len()) };
            elements.iter_mut().for_each(|it| *it = u8::from(*it != 0));
        }
        out
    }

    /// Whether this array is all of its memory, in row-major order, and not shared, so that it may be written.
    pub fn is_sole(&mut self) -> bool {
        let whole = self.layout.is_contiguous() && self.numel() * self.dtype.size() == self.storage.len();
        whole && Arc::get_mut(&mut self.storage).is_some_and(Storage::is_writable)
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
#[inline(always)]
fn bytes_of(shape: &[usize], dtype: DType) -> Result<usize> {
    match count(shape).and_then(|it| it.checked_mul(dtype.size())) {
        Some(bytes) => Ok(bytes),
        None => Err(Error::new(Code::Memory, format!("no memory holds {dtype}{shape:?}"))),
    }
}
