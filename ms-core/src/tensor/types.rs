//! Types of values: dtype and dimensions.

use super::dtype::DType;
use super::layout::count;
use crate::error::{Code, Error, Result};
use smallvec::SmallVec;
use std::fmt;

/// The size of one dimension: a constant, or an expression of symbols that a call fixes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim(i64);

/// The dimensions of a type, outermost first.
pub type Dims = SmallVec<[Dim; 4]>;

impl Dim {
    /// The size of an axis that only the run of a loop decides. It equals itself; no op but
    /// `scan` and those that pass values on takes it.
    pub const DYNAMIC: Self = Self(i64::MIN);

    /// A constant size; one above `i64::MAX`, which no memory holds, counts as `i64::MAX`.
    pub const fn new(size: usize) -> Self {
        Self(if size > i64::MAX as usize { i64::MAX } else { size as i64 })
    }

    /// The size, if it is a constant.
    pub const fn as_const(self) -> Option<usize> {
        if self.0 >= 0 { Some(self.0 as usize) } else { None }
    }
}

impl From<usize> for Dim {
    fn from(size: usize) -> Self {
        Self::new(size)
    }
}

impl PartialEq<usize> for Dim {
    fn eq(&self, other: &usize) -> bool {
        self.as_const() == Some(*other)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::DYNAMIC { f.write_str("?") } else { self.0.fmt(f) }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The type of a value: `f32[64, 10]`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Type {
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub dims: Dims,
}

impl Type {
    /// A type of constant dimensions.
    pub fn of(dtype: DType, shape: &[usize]) -> Self {
        Self { dtype, dims: shape.iter().map(|&size| Dim::new(size)).collect() }
    }

    /// A type from its parts.
    pub fn new(dtype: DType, dims: Dims) -> Self {
        Self { dtype, dims }
    }

    /// The type of several values of this type along a new first axis.
    pub fn stacked(&self, size: Dim) -> Self {
        Self { dtype: self.dtype, dims: std::iter::once(size).chain(self.dims.iter().copied()).collect() }
    }

    /// Whether a value of type `other` is one of this type: equal, where this type does not
    /// leave a size open.
    pub fn admits(&self, other: &Self) -> bool {
        let fits = |(mine, theirs): (&Dim, &Dim)| mine == theirs || *mine == Dim::DYNAMIC;
        self.dtype == other.dtype && self.rank() == other.rank() && self.dims.iter().zip(&other.dims).all(fits)
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The constant shape, or nothing when a dimension is symbolic.
    pub fn shape(&self) -> Option<super::layout::Shape> {
        self.dims.iter().map(|dim| dim.as_const()).collect()
    }

    /// Number of elements, when every dimension is a constant and the number is one of `usize`.
    pub fn numel(&self) -> Option<usize> {
        count(&self.shape()?)
    }

    /// Whether the address space has room for an array of this type, so that no number of
    /// elements or bytes and no stride of it overflows. As in NumPy, the sizes beside a zero count.
    ///
    /// # Errors
    /// [`Code::Memory`] when it has not.
    pub fn check_size(&self) -> Result<()> {
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
