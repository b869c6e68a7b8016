//! Helpers of the matrix ops: type checks and access to the matrices of a batch.

use crate::custom::{AnyView, AnyViewMut, Type, View, ViewMut};
use crate::reals::check_reals;
use crate::{Code, Error, Result, Tensor};
use faer::MatRef;
use faer::traits::RealField;
use ms_core::error::OrRaise;
use ms_core::tensor::{Dim, Dims, Element};

/// A dtype of matrix elements.
pub(super) trait Real: RealField + Element {}

impl Real for f32 {}
impl Real for f64 {}

/// Splits a type into the number of rows, the number of columns, and the batch axes.
///
/// # Errors
/// Returns [`Code::Shape`] for fewer than two axes, and [`Code::DType`] for elements that are neither f32 nor f64.
pub(super) fn matrices(x: &Type) -> Result<(Dim, Dim, Dims)> {
    check_reals("matrices", x)?;
    match &x.dims[..] {
        [batch @ .., rows, columns] => Ok((*rows, *columns, batch.iter().copied().collect())),
        _ => Err(Error::new(Code::Shape, format!("{x} has no two axes of matrices"))),
    }
}

/// Splits a type of square matrices into their size and the batch axes.
///
/// # Errors
/// Returns the errors of [`matrices`], and [`Code::Shape`] for matrices that are not square.
pub(super) fn squares(x: &Type) -> Result<(Dim, Dims)> {
    let (rows, columns, batch) = matrices(x)?;
    match rows.may_equal(columns) {
        true => Ok((rows, batch)),
        false => Err(Error::new(Code::Shape, format!("the matrices of {x} are not square"))),
    }
}

/// Raises an error unless the operand of the function `name` consists of square matrices.
#[track_caller]
pub(super) fn check_square(name: &str, x: &Tensor) {
    squares(&x.ty()).map(|_| ()).map_err(|it| it.with_op(name)).or_raise();
}

/// Builds a type with the dtype of `like`, the axes `batch`, and the axes `last`.
pub(super) fn of(like: &Type, batch: &[Dim], last: &[Dim]) -> Type {
    Type::new(like.dtype, batch.iter().chain(last).copied().collect())
}

/// The elements of an operand, as matrices along the last two axes.
pub(super) struct Matrices<'a, T> {
    elements: View<'a, T>,
    /// The number of rows of each matrix.
    pub rows: usize,
    /// The number of columns of each matrix.
    pub columns: usize,
    /// The number of matrices; zero if they have no elements.
    pub count: usize,
}

impl<'a, T: Real> Matrices<'a, T> {
    pub fn new(view: &AnyView<'a>) -> Result<Self> {
        let [batch @ .., rows, columns] = view.shape() else { unreachable!("`types` refuses fewer axes") };
        let count = if rows * columns == 0 { 0 } else { batch.iter().product() };
        Ok(Self { elements: view.typed()?, rows: *rows, columns: *columns, count })
    }

    /// Returns the matrix at a position of the batch.
    pub fn at(&self, position: usize) -> MatRef<'_, T> {
        let size = self.rows * self.columns;
        MatRef::from_row_major_slice(&self.elements[position * size..][..size], self.rows, self.columns)
    }

    /// Returns the matrix at a position of the batch, if its elements are finite.
    ///
    /// # Errors
    /// Returns [`Code::NoDecomposition`] if an element is not finite.
    pub fn finite(&self, position: usize) -> Result<MatRef<'_, T>> {
        let matrix = self.at(position);
        match matrix.is_all_finite() {
            true => Ok(matrix),
            false => Err(refusal(position, "has elements that are not finite")),
        }
    }
}

/// Writes the matrix at a position of a result's batch. `element` computes the value at a row and a column.
pub(super) fn write<T: Real>(
    to: &mut ViewMut<'_, T>,
    position: usize,
    [rows, columns]: [usize; 2],
    element: impl Fn(usize, usize) -> T,
) {
    let size = rows * columns;
    for (at, to) in to[position * size..][..size].iter_mut().enumerate() {
        *to = element(at / columns, at % columns);
    }
}

/// Returns the elements of a result as `T`.
pub(super) fn result<'a, T: Real>(view: &'a mut AnyViewMut<'_>) -> Result<ViewMut<'a, T>> {
    view.typed()
}

/// Creates the error for the matrix at a position of the batch.
#[cold]
pub(super) fn refusal(position: usize, says: &str) -> Error {
    Error::new(Code::NoDecomposition, format!("matrix {position} of the batch {says}"))
}

/// Transposes matrices.
#[track_caller]
pub(super) fn t(x: &Tensor) -> Tensor {
    x.transpose(-2, -1)
}

/// Returns the mean of matrices and their transposes.
#[track_caller]
pub(super) fn symmetric(x: &Tensor) -> Tensor {
    (x + t(x)) * 0.5
}

/// Multiplies the columns of matrices by the elements of vectors.
#[track_caller]
pub(super) fn scaled_columns(x: &Tensor, by: &Tensor) -> Tensor {
    x * by.expand_dims(-2)
}
