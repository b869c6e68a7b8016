//! What the ops have in common: checks of types, the matrices of a batch.

use crate::custom::{AnyView, AnyViewMut, Type, View, ViewMut};
use crate::reals::check_reals;
use crate::{Code, Error, Result, Tensor};
use faer::MatRef;
use faer::traits::RealField;
use ms_core::error::OrRaise;
use ms_core::tensor::{Dim, Dims, Element};

/// The dtypes of matrices.
pub(super) trait Real: RealField + Element {}

impl Real for f32 {}
impl Real for f64 {}

/// The number of rows, the number of columns, and the batch of a type.
///
/// # Errors
/// [`Code::Shape`] for fewer than two axes, [`Code::DType`] for elements that are neither f32 nor f64.
pub(super) fn matrices(x: &Type) -> Result<(Dim, Dim, Dims)> {
    check_reals("matrices", x)?;
    match &x.dims[..] {
        [batch @ .., rows, columns] => Ok((*rows, *columns, batch.iter().copied().collect())),
        _ => Err(Error::new(Code::Shape, format!("{x} has no two axes of matrices"))),
    }
}

/// The size and the batch of a type of square matrices.
///
/// # Errors
/// Those of [`matrices`], and [`Code::Shape`] for matrices that are not square.
pub(super) fn squares(x: &Type) -> Result<(Dim, Dims)> {
    let (rows, columns, batch) = matrices(x)?;
    match rows.may_equal(columns) {
        true => Ok((rows, batch)),
        false => Err(Error::new(Code::Shape, format!("the matrices of {x} are not square"))),
    }
}

/// Raises the error of a function whose operand is not square matrices.
#[track_caller]
pub(super) fn check_square(name: &str, x: &Tensor) {
    squares(&x.ty()).map(|_| ()).map_err(|it| it.with_op(name)).or_raise();
}

/// A type of matrices.
pub(super) fn of(like: &Type, batch: &[Dim], last: &[Dim]) -> Type {
    Type::new(like.dtype, batch.iter().chain(last).copied().collect())
}

/// The elements of an operand, which are matrices along the last two axes.
pub(super) struct Matrices<'a, T> {
    elements: View<'a, T>,
    /// The number of rows of each.
    pub rows: usize,
    /// The number of columns of each.
    pub columns: usize,
    /// How many there are; none if they are without elements.
    pub count: usize,
}

impl<'a, T: Real> Matrices<'a, T> {
    pub fn new(view: &AnyView<'a>) -> Result<Self> {
        let [batch @ .., rows, columns] = view.shape() else { unreachable!("`types` refuses fewer axes") };
        let count = if rows * columns == 0 { 0 } else { batch.iter().product() };
        Ok(Self { elements: view.typed()?, rows: *rows, columns: *columns, count })
    }

    /// The matrix at a position of the batch.
    pub fn at(&self, position: usize) -> MatRef<'_, T> {
        let size = self.rows * self.columns;
        MatRef::from_row_major_slice(&self.elements[position * size..][..size], self.rows, self.columns)
    }

    /// [`Matrices::at`], if its elements are finite.
    ///
    /// # Errors
    /// [`Code::NoDecomposition`] if one is not.
    pub fn finite(&self, position: usize) -> Result<MatRef<'_, T>> {
        let matrix = self.at(position);
        match matrix.is_all_finite() {
            true => Ok(matrix),
            false => Err(refusal(position, "has elements that are not finite")),
        }
    }
}

/// Writes the matrix at a position of a result's batch: the element of each row and column.
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

/// The elements of a result.
pub(super) fn result<'a, T: Real>(view: &'a mut AnyViewMut<'_>) -> Result<ViewMut<'a, T>> {
    view.typed()
}

/// The error of a matrix.
#[cold]
pub(super) fn refusal(position: usize, says: &str) -> Error {
    Error::new(Code::NoDecomposition, format!("matrix {position} of the batch {says}"))
}

/// The transposed matrices.
#[track_caller]
pub(super) fn t(x: &Tensor) -> Tensor {
    x.transpose(-2, -1)
}

/// The mean of matrices and their transposes.
#[track_caller]
pub(super) fn symmetric(x: &Tensor) -> Tensor {
    (x + t(x)) * 0.5
}

/// The columns of matrices multiplied by the elements of vectors.
#[track_caller]
pub(super) fn scaled_columns(x: &Tensor, by: &Tensor) -> Tensor {
    x * by.expand_dims(-2)
}
