//! Views of arrays for the functions of custom ops: slices, and slices with shapes.

use crate::tensor::{Array, DType, Element, HostArray};
use ms_ir::error::{Code, Error, Result};
use std::ops::{Deref, DerefMut};

/// Types as which a function reads an operand: `&[T]`, [`View`], [`AnyView`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no view of an operand",
    label = "not `&[T]`, `View<T>` or `AnyView` for the element type `T` of a tensor"
)]
pub trait OperandView<'a>: Sized {
    /// The dtype that the view reads; `None` for any.
    const DTYPE: Option<DType>;

    /// Returns the view of a row-major array.
    ///
    /// # Errors
    /// [`Code::DType`] if the array has another dtype.
    fn of(array: &'a HostArray<'a>) -> Result<Self>;
}

/// Types as which a function writes a result: `&mut [T]`, [`ViewMut`], [`AnyViewMut`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no view of a result",
    label = "not `&mut [T]`, `ViewMut<T>` or `AnyViewMut` for the element type `T` of a tensor"
)]
pub trait ResultView<'a>: Sized {
    /// The dtype that the view writes; `None` for any.
    const DTYPE: Option<DType>;

    /// Returns the view of a row-major array that is not shared.
    ///
    /// # Errors
    /// [`Code::DType`] if the array has another dtype.
    fn of(array: &'a mut Array) -> Result<Self>;
}

/// The elements of an operand in row-major order, with its shape. Derefs to the slice of the elements.
///
/// ```
/// use ms_core::ops::custom::View;
/// let of = View::new(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
/// assert_eq!((of.shape(), of.row(1)), (&[2, 3][..], &[4.0, 5.0, 6.0][..]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    elements: &'a [T],
    shape: &'a [usize],
}

impl<'a, T> View<'a, T> {
    /// Creates a view of elements with a shape.
    ///
    /// # Panics
    /// If the number of elements does not match the shape.
    pub fn new(elements: &'a [T], shape: &'a [usize]) -> Self {
        assert_eq!(elements.len(), shape.iter().product(), "the number of elements of the shape {shape:?}");
        Self { elements, shape }
    }

    /// Returns the sizes of the dimensions.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Returns the elements in row-major order.
    pub fn elements(&self) -> &'a [T] {
        self.elements
    }

    /// Returns the rows: elements that differ in the last index only.
    ///
    /// # Panics
    /// If the view has rank 0.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'a [T]> + use<'a, T> {
        self.elements.chunks_exact(row_len(self.shape))
    }

    /// Returns a row.
    ///
    /// # Panics
    /// If `at` is not below the number of rows.
    pub fn row(&self, at: usize) -> &'a [T] {
        let len = row_len(self.shape);
        &self.elements[at * len..][..len]
    }
}

/// Returns the length of a row, at least 1 because chunks cannot be empty. An array of empty rows has no elements.
fn row_len(shape: &[usize]) -> usize {
    (*shape.last().expect("a number has no rows")).max(1)
}

impl<T> Deref for View<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

/// The elements of a result in row-major order, zero-initialised, with its shape. Derefs to the slice of the elements.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    elements: &'a mut [T],
    shape: crate::tensor::Shape,
}

impl<T> ViewMut<'_, T> {
    /// Returns the sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the rows: elements that differ in the last index only.
    ///
    /// # Panics
    /// If the view has rank 0.
    pub fn rows_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [T]> {
        self.elements.chunks_exact_mut(row_len(&self.shape))
    }
}

impl<T> Deref for ViewMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<T> DerefMut for ViewMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.elements
    }
}

/// An operand of any dtype.
#[derive(Clone, Copy, Debug)]
pub struct AnyView<'a>(&'a HostArray<'a>);

impl<'a> AnyView<'a> {
    /// Returns the dtype.
    pub fn dtype(&self) -> DType {
        self.0.dtype()
    }

    /// Returns the sizes of the dimensions.
    pub fn shape(&self) -> &'a [usize] {
        self.0.shape()
    }

    /// Returns the elements as `T`.
    ///
    /// # Errors
    /// [`Code::DType`] if the elements have another dtype.
    pub fn typed<T: Element>(&self) -> Result<View<'a, T>> {
        View::of(self.0)
    }
}

/// A result of any dtype.
#[derive(Debug)]
pub struct AnyViewMut<'a>(&'a mut Array);

impl AnyViewMut<'_> {
    /// Returns the dtype.
    pub fn dtype(&self) -> DType {
        self.0.dtype()
    }

    /// Returns the sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// Returns the elements as `T`.
    ///
    /// # Errors
    /// [`Code::DType`] if the elements have another dtype.
    pub fn typed<T: Element>(&mut self) -> Result<ViewMut<'_, T>> {
        ViewMut::of(self.0)
    }
}

fn check<T: Element>(dtype: DType) -> Result<()> {
    if dtype == T::DTYPE {
        return Ok(());
    }
    Err(Error::new(Code::DType, format!("elements are {dtype}, not {}", T::DTYPE)))
}

impl<'a, T: Element> OperandView<'a> for &'a [T] {
    const DTYPE: Option<DType> = Some(T::DTYPE);

    fn of(array: &'a HostArray<'a>) -> Result<Self> {
        array.as_slice()
    }
}

impl<'a, T: Element> OperandView<'a> for View<'a, T> {
    const DTYPE: Option<DType> = Some(T::DTYPE);

    fn of(array: &'a HostArray<'a>) -> Result<Self> {
        Ok(Self { elements: array.as_slice()?, shape: array.shape() })
    }
}

impl<'a> OperandView<'a> for AnyView<'a> {
    const DTYPE: Option<DType> = None;

    fn of(array: &'a HostArray<'a>) -> Result<Self> {
        Ok(Self(array))
    }
}

impl<'a, T: Element> ResultView<'a> for &'a mut [T] {
    const DTYPE: Option<DType> = Some(T::DTYPE);

    fn of(array: &'a mut Array) -> Result<Self> {
        check::<T>(array.dtype())?;
        Ok(array.as_mut_slice())
    }
}

impl<'a, T: Element> ResultView<'a> for ViewMut<'a, T> {
    const DTYPE: Option<DType> = Some(T::DTYPE);

    fn of(array: &'a mut Array) -> Result<Self> {
        check::<T>(array.dtype())?;
        let shape = array.shape().into();
        Ok(Self { elements: array.as_mut_slice(), shape })
    }
}

impl<'a> ResultView<'a> for AnyViewMut<'a> {
    const DTYPE: Option<DType> = None;

    fn of(array: &'a mut Array) -> Result<Self> {
        Ok(Self(array))
    }
}
