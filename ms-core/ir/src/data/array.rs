//! Defines concrete arrays: storage, layout, dtype.

use super::device::Device;
use super::dtype::DType;
use super::element::{Element, Scalar, with_word};
use super::layout::{Layout, Shape, count};
use super::memory::MemorySpace;
use super::storage::Storage;
use super::types::Type;
use crate::error::{Code, Error, OrExhausted, Result, in_op, raise};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A strided view of shared memory of some device. Cloning shares the memory.
///
/// [`Array::on_host`] returns the elements. Constructors that take elements allocate host memory, and
/// [`Array::to_space`] copies an array to a device.
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
    /// Creates a view of `storage`.
    ///
    /// # Safety
    /// The bytes of an element are initialised before it is read, to a valid value of `dtype`: a bool is 0 or 1.
    ///
    /// # Panics
    /// Panics unless every element of `layout` is inside `storage`.
    pub unsafe fn new(storage: Arc<Storage>, layout: Layout, dtype: DType) -> Self {
        assert!(
            layout.fits(storage.len() / dtype.size()),
            "a view {layout:?} of {dtype} lies inside its {} bytes",
            storage.len()
        );
        Self { storage, layout, dtype }
    }

    /// Creates a row-major array in host memory with uninitialised elements.
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

    /// Creates an uninitialised array like [`Array::uninit`], in any memory.
    ///
    /// # Safety
    /// Every element is written before any is read.
    ///
    /// # Errors
    /// See [`Array::uninit`].
    #[inline(always)]
    pub unsafe fn uninit_in(space: MemorySpace, shape: &[usize], dtype: DType) -> Result<Self> {
        let storage = Arc::new(Storage::uninit_in(space, bytes_of(shape, dtype)?)?);
        Ok(Self { storage, layout: Layout::contiguous(shape), dtype })
    }

    /// Creates an uninitialised array of a row-major layout.
    ///
    /// # Safety
    /// Every element is written before any is read.
    ///
    /// # Errors
    /// [`Code::Memory`] when there is no memory for it; the errors of the device.
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
    /// See [`Array::zeros`].
    #[track_caller]
    pub fn full(shape: &[usize], value: Scalar, dtype: DType) -> Self {
        // SAFETY: `fill` writes every element.
        let out = unsafe { Self::uninit(shape, dtype) }.or_exhausted();
        let bits = value.to_bits(dtype);
        with_word!(dtype.size(), T => {
            // SAFETY: the array is fresh, so it is row-major from the start of a storage with one owner, and `T` has
            // the size and alignment of its elements.
            let words = unsafe { std::slice::from_raw_parts_mut(out.device_ptr().cast::<MaybeUninit<T>>(), out.numel()) };
            words.fill(MaybeUninit::new(bits as T));
        });
        out
    }

    /// A row-major array of the elements of `data`.
    ///
    /// # Panics
    /// See [`Array::zeros`]; raises [`Code::Shape`] unless the elements fill the shape.
    #[track_caller]
    pub fn from_slice<T: Element>(shape: &[usize], data: &[T]) -> Self {
        if count(shape) != Some(data.len()) {
            raise(Error::new(Code::Shape, format!("{} elements do not fill shape {shape:?}", data.len())));
        }
        // SAFETY: `data` has `count(shape)` elements, so the copy writes every element.
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

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// The type: dtype and dimensions.
    pub fn ty(&self) -> Type {
        Type::of(self.dtype, self.shape())
    }

    /// Returns another view of the same memory. Panics unless it lies inside.
    pub fn with_layout(&self, layout: Layout) -> Self {
        // SAFETY: the creator of the first view initialises the memory with values of this dtype before reads, as `new`
        // requires. `layout` lies inside, or `new` panics.
        unsafe { Self::new(self.storage.clone(), layout, self.dtype) }
    }

    /// Returns the memory that contains the array.
    #[inline]
    pub fn space(&self) -> MemorySpace {
        self.storage.space()
    }

    /// Returns the device of the array.
    pub fn device(&self) -> Device {
        self.space().device()
    }

    /// Copies the part of the memory that contains the elements to the host.
    #[cold]
    pub(super) fn copied_to_host(&self) -> Result<Self> {
        let copy = |first, bytes| self.storage.copied_to_host(first, bytes).map(Some);
        Ok(self.copied_by(copy)?.expect("the host takes a copy"))
    }

    /// Copies the part of the memory that contains the elements by `copy`, which takes its first byte and its size.
    fn copied_by(&self, copy: impl FnOnce(usize, usize) -> Result<Option<Storage>>) -> Result<Option<Self>> {
        let size = self.dtype.size();
        let (first, end) = self.layout.range();
        let Some(storage) = copy(first * size, (end - first) * size)? else { return Ok(None) };
        let offset = if first < end { self.layout.offset() - first } else { 0 };
        let layout = Layout::new(self.shape().into(), self.layout.strides().into(), offset);
        Ok(Some(Self { storage: Arc::new(storage), layout, dtype: self.dtype }))
    }

    /// Returns whether the elements are at least half of the memory from the first to the last of them.
    fn is_compact(&self) -> bool {
        let (first, end) = self.layout.range();
        end - first <= 2 * self.numel()
    }

    /// Returns the array in this memory, copied unless it is there. The copy to another device of the same kind does
    /// not go through the host, except for views of few elements of their memory.
    ///
    /// # Errors
    /// [`Code::Memory`] when there is no memory for the copy; the errors of both devices, and of the work that precedes
    /// the copy.
    pub fn to_space(&self, space: MemorySpace) -> Result<Self> {
        let (from, to) = (self.device(), space.device());
        if from == to {
            return Ok(self.clone());
        }
        let MemorySpace::Device(memory) = space else { return self.copied_to_host() };
        if from.kind() == to.kind()
            && self.is_compact()
            && let Some(copy) = self.copied_by(|first, bytes| self.storage.copied_to_peer(memory, first, bytes))?
        {
            return Ok(copy);
        }
        let dense = in_op(|| Ok(self.on_host()?.to_contiguous()))?;
        let storage = Arc::new(Storage::from_host(space, dense.on_host()?.bytes())?);
        Ok(Self { storage, layout: Layout::contiguous(self.shape()), dtype: self.dtype })
    }

    /// Returns the address of the first element on the array's device, for backends. It is a host pointer only if the
    /// array is on the host. Writers uphold the contract of [`Storage::device_ptr`].
    #[inline]
    pub fn device_ptr(&self) -> *mut u8 {
        // The offset of an empty view may be past the block, but nothing reads there.
        self.storage.device_ptr().wrapping_add(self.layout.offset().wrapping_mul(self.dtype.size()))
    }

    /// Returns the elements of an unshared row-major array in host memory for writing.
    ///
    /// # Panics
    /// Panics for any other array.
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        assert_eq!(T::DTYPE, self.dtype, "the element type is {}", self.dtype);
        self.check_writable();
        let (ptr, len) = (self.device_ptr().cast(), self.numel());
        if len == 0 {
            return &mut [];
        }
        // SAFETY: the dtype matches, the layout is dense and inside the storage, the elements are initialised, and
        // `&mut self` is the only owner of the storage.
        unsafe { std::slice::from_raw_parts_mut(ptr, len) }
    }

    /// Returns the bytes of an unshared row-major array in host memory for writing. What is written are values of the
    /// dtype: a bool is 0 or 1.
    ///
    /// # Panics
    /// Panics for any other array.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.check_writable();
        let (ptr, len) = (self.device_ptr(), self.numel() * self.dtype.size());
        if len == 0 {
            return &mut [];
        }
        // SAFETY: the layout is dense and inside the storage, the elements are initialised, and `&mut self` is the only
        // owner of the storage.
        unsafe { std::slice::from_raw_parts_mut(ptr, len) }
    }

    fn check_writable(&mut self) {
        assert!(self.layout.is_contiguous(), "the view is contiguous");
        let is_writable = |it: &mut Storage| it.is_host() && it.is_writable();
        assert!(Arc::get_mut(&mut self.storage).is_some_and(is_writable), "the storage is the host's and not shared");
    }

    /// Returns the elements of a fresh array for writing.
    fn unwritten<T: Element>(&mut self) -> &mut [MaybeUninit<T>] {
        assert_eq!(T::DTYPE, self.dtype, "the element type is {}", self.dtype);
        let len = self.numel();
        // SAFETY: the array is fresh, so it is in host memory and row-major from the start of a storage with one owner.
        unsafe { std::slice::from_raw_parts_mut(self.storage.device_ptr().cast(), len) }
    }

    /// Creates a row-major array from its raw bytes. For bools, every nonzero byte is true.
    ///
    /// # Panics
    /// See [`Array::zeros`]; raises [`Code::Shape`] unless the bytes fill the shape.
    #[track_caller]
    pub fn from_bytes(shape: &[usize], dtype: DType, bytes: &[u8]) -> Self {
        if count(shape).and_then(|it| it.checked_mul(dtype.size())) != Some(bytes.len()) {
            raise(Error::new(Code::Shape, format!("{} bytes do not fill {dtype}{shape:?}", bytes.len())));
        }
        // SAFETY: `bytes` fills the shape, so the copy below writes every element.
        let out = unsafe { Self::uninit(shape, dtype) }.or_exhausted();
        // SAFETY: the fresh storage has exactly `bytes.len()` bytes and one owner, so it does not overlap `bytes`.
        unsafe { out.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        if dtype == DType::Bool {
            // SAFETY: the storage has `bytes.len()` initialised bytes and one owner. Bytes other than 0 and 1 are not
            // valid `bool`s, so they are normalised as bytes before they are read as bools.
            let elements = unsafe { std::slice::from_raw_parts_mut(out.device_ptr(), bytes.len()) };
            elements.iter_mut().for_each(|it| *it = u8::from(*it != 0));
        }
        out
    }

    /// Returns whether this array covers all of its memory in row-major order and is not shared, so that it may be
    /// written.
    pub fn is_sole(&mut self) -> bool {
        let whole = self.layout.is_contiguous() && self.numel() * self.dtype.size() == self.storage.len();
        whole && Arc::get_mut(&mut self.storage).is_some_and(Storage::is_writable)
    }

    /// Returns an owned copy of the shape.
    pub fn shape_owned(&self) -> Shape {
        self.shape().into()
    }
}

/// Returns the size in bytes of a row-major array.
///
/// # Errors
/// [`Code::Memory`] when it exceeds the address space.
#[inline(always)]
fn bytes_of(shape: &[usize], dtype: DType) -> Result<usize> {
    match count(shape).and_then(|it| it.checked_mul(dtype.size())) {
        Some(bytes) => Ok(bytes),
        None => Err(Error::new(Code::Memory, format!("no memory holds {dtype}{shape:?}"))),
    }
}
