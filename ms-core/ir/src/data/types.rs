//! Defines the types of values: dtype and dimensions.

use super::dim::{Dim, Dims};
use super::dtype::DType;
use super::layout::count;
use crate::error::{Code, Error, Result};
use std::fmt;

/// The type of a value: `f32[64, 10]`.
///
/// ```
/// use ms_core::{DType, Tensor, tensor::Type};
/// let ty = Type::of(DType::F32, &[64, 10]);
/// assert_eq!((ty.to_string().as_str(), ty.rank(), ty.numel()), ("f32[64, 10]", 2, Some(640)));
/// assert_eq!(Tensor::zeros([64, 10]).ty(), ty);
/// ```
#[derive(PartialEq, Eq, Hash)]
pub struct Type {
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub dims: Dims,
}

impl Clone for Type {
    #[inline]
    fn clone(&self) -> Self {
        // Copies the whole array at once; cloning a small vector copies one element at a time.
        Self { dtype: self.dtype, dims: Dims::from_slice(&self.dims) }
    }
}

impl Type {
    /// Creates a type of constant dimensions.
    pub fn of(dtype: DType, shape: &[usize]) -> Self {
        Self { dtype, dims: shape.iter().map(|&size| Dim::new(size)).collect() }
    }

    /// Creates a type from its parts.
    pub fn new(dtype: DType, dims: Dims) -> Self {
        Self { dtype, dims }
    }

    /// Returns the type of several values of this type along a new first axis.
    pub fn stacked(&self, size: Dim) -> Self {
        Self { dtype: self.dtype, dims: std::iter::once(size).chain(self.dims.iter().copied()).collect() }
    }

    /// Returns whether a value of type `other` is valid for this type. The types must be equal, except where this type
    /// leaves a size open or one of them has symbols.
    pub fn admits(&self, other: &Self) -> bool {
        let fits = |(mine, theirs): (&Dim, &Dim)| mine.may_equal(*theirs) || *mine == Dim::DYNAMIC;
        self.dtype == other.dtype && self.rank() == other.rank() && self.dims.iter().zip(&other.dims).all(fits)
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Returns whether a dimension is an expression of symbols.
    pub fn is_symbolic(&self) -> bool {
        self.dims.iter().any(|it| it.is_symbolic())
    }

    /// Returns the number of elements, which may be symbolic.
    pub fn elements(&self) -> Dim {
        self.dims.iter().copied().product()
    }

    /// Returns the constant shape; `None` if a dimension is symbolic.
    pub fn shape(&self) -> Option<super::layout::Shape> {
        self.dims.iter().map(|dim| dim.as_const()).collect()
    }

    /// Returns the number of elements, if every dimension is constant and the number fits `usize`.
    pub fn numel(&self) -> Option<usize> {
        count(&self.shape()?)
    }

    /// Checks that an array of this type fits the address space, so that no number of elements or bytes and no stride
    /// overflows. As in NumPy, sizes next to a zero count.
    ///
    /// # Errors
    /// [`Code::Memory`] if it does not fit, [`Code::Shape`] for a negative size.
    pub fn check_size(&self) -> Result<()> {
        if self.dims.iter().any(|it| it.is_negative()) {
            return Err(Error::new(Code::Shape, format!("{self} has a negative size")));
        }
        let mut sizes = self.dims.iter().filter_map(|it| it.as_const()).filter(|&it| it > 0);
        let bytes = sizes.try_fold(self.dtype.size(), usize::checked_mul);
        match bytes {
            Some(bytes) if bytes <= isize::MAX as usize / 2 => Ok(()),
            _ => Err(Error::new(Code::Memory, format!("no memory holds {self}"))),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, dim) in self.dims.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            dim.fmt(f)?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
