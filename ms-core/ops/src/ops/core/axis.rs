//! Axis arguments of ops, and errors of composed ops.

use crate::tensor::{Tensor, Type};
use ms_ir::error::{Code, Error, Result};
use smallvec::SmallVec;

/// Normalises an axis of a tensor of `rank`; negative axes count from the end.
///
/// ```
/// use ms_core::ops::normalize_axis;
/// assert_eq!(normalize_axis(-1, 3)?, 2);
/// assert!(normalize_axis(3, 3).is_err());
/// # Ok::<(), ms_core::Error>(())
/// ```
///
/// # Errors
/// [`Code::OutOfRange`] outside `-rank..rank`.
pub fn normalize_axis(axis: isize, rank: usize) -> Result<usize> {
    let at = if axis < 0 { axis + rank as isize } else { axis };
    if at < 0 || at >= rank as isize {
        let help = match rank {
            0 => "a tensor without axes takes none".to_string(),
            _ => format!("axes of this tensor go from -{rank} to {}", rank - 1),
        };
        return Err(Error::new(Code::OutOfRange, format!("axis {axis} of a tensor of rank {rank}")).help(help));
    }
    Ok(at as usize)
}

/// Normalises distinct axes of a tensor of `rank`, in the given order.
///
/// ```
/// use ms_core::ops::normalize_axes;
/// assert_eq!(normalize_axes(&[-1, 0], 3)?[..], [2, 0]);
/// assert!(normalize_axes(&[2, -1], 3).is_err());
/// # Ok::<(), ms_core::Error>(())
/// ```
///
/// # Errors
/// [`Code::OutOfRange`] outside `-rank..rank`, [`Code::Argument`] for an axis given twice.
pub fn normalize_axes(axes: &[isize], rank: usize) -> Result<SmallVec<[usize; 4]>> {
    let mut out = SmallVec::new();
    for &axis in axes {
        let at = normalize_axis(axis, rank)?;
        if out.contains(&at) {
            return Err(Error::new(Code::Argument, format!("axis {axis} is given twice in {axes:?}")));
        }
        out.push(at);
    }
    Ok(out)
}

attributes! {
    /// The attributes of ops along one axis.
    pub struct AxisAttrs { axis: usize }
}

/// Checks an axis of an attribute, which is not negative.
///
/// # Errors
/// [`Code::OutOfRange`] outside `0..rank`.
pub(crate) fn stored_axis(axis: usize, rank: usize) -> Result<usize> {
    Some(axis).filter(|&it| it < rank).ok_or_else(|| {
        let message = format!("attributes name axes from 0 to the rank {rank}, not {}", axis as isize);
        Error::new(Code::OutOfRange, message)
    })
}

/// Checks distinct axes of an attribute, and returns them in its order.
///
/// # Errors
/// [`Code::OutOfRange`] outside `0..rank`, [`Code::Argument`] for an axis named twice.
pub(crate) fn stored_axes(axes: &[i64], rank: usize) -> Result<SmallVec<[usize; 4]>> {
    let mut out = SmallVec::new();
    for &axis in axes {
        let at = stored_axis(axis as usize, rank)?;
        if out.contains(&at) {
            return Err(Error::new(Code::Argument, format!("axis {axis} is named twice in {axes:?}")));
        }
        out.push(at);
    }
    Ok(out)
}

/// Types that can be axes: one axis, or an array, a slice or a vector of them.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[1, 2], [3, 4]];
/// assert_eq!(ops::flip(&x, 0).to_vec::<i64>(), [3, 4, 1, 2]);
/// assert_eq!(ops::flip(&x, [0, -1]).to_vec::<i64>(), [4, 3, 2, 1]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no axes",
    note = "an axis is an integer, several are an array, a slice or a vector of integers; reductions over all axes take `()`"
)]
pub trait IntoAxes {
    /// Returns the axes as given.
    fn into_axes(self) -> SmallVec<[isize; 4]>;
}

/// Converts an axis to a signed number; one that overflows is out of range for every tensor.
fn signed(axis: impl TryInto<isize>) -> isize {
    axis.try_into().unwrap_or(isize::MAX)
}

macro_rules! axes_of {
    ($($ty:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl IntoAxes for $ty {
            fn into_axes(self) -> SmallVec<[isize; 4]> {
                SmallVec::from_slice(&[signed(self)])
            }
        }
        #[diagnostic::do_not_recommend]
        impl IntoAxes for &Vec<$ty> {
            fn into_axes(self) -> SmallVec<[isize; 4]> {
                self.as_slice().into_axes()
            }
        }
        #[diagnostic::do_not_recommend]
        impl<const N: usize> IntoAxes for [$ty; N] {
            fn into_axes(self) -> SmallVec<[isize; 4]> {
                self.into_iter().map(signed).collect()
            }
        }
        #[diagnostic::do_not_recommend]
        impl IntoAxes for &[$ty] {
            fn into_axes(self) -> SmallVec<[isize; 4]> {
                self.iter().map(|&it| signed(it)).collect()
            }
        }
        #[diagnostic::do_not_recommend]
        impl IntoAxes for Vec<$ty> {
            fn into_axes(self) -> SmallVec<[isize; 4]> {
                self.as_slice().into_axes()
            }
        }
    )*};
}

axes_of! { isize usize i32 i64 }

/// Types that can be the axes of a reduction: axes, or `()` or `None` for all of them. Wrap them in [`keepdims`] to
/// keep the axes in the result with size 1.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[1, 2], [3, 4]];
/// assert_eq!(ops::sum(&x, 0).to_vec::<i64>(), [4, 6]);
/// assert_eq!(ops::sum(&x, [0, 1]).item::<i64>(), 10);
/// assert_eq!(ops::sum(&x, ()).item::<i64>(), 10);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no axes",
    note = "an axis is an integer, several are an array, a slice or a vector of integers; `()` stands for all of them"
)]
pub trait ReduceAxes {
    /// Returns the axes of a tensor of `rank`, in ascending order.
    ///
    /// # Errors
    /// The errors of [`normalize_axes`].
    fn resolve(self, rank: usize) -> Result<SmallVec<[usize; 4]>>;

    /// Whether the axes remain in the result with size 1.
    fn keepdims(&self) -> bool {
        false
    }
}

/// The axes of a reduction, and whether they remain in the result with size 1.
///
/// See the example of [`keepdims`].
#[derive(Clone, Copy, Debug)]
pub struct Keepdims<A> {
    axes: A,
    keepdims: bool,
}

impl<A: ReduceAxes> Keepdims<A> {
    /// Reduces over `axes`, which remain in the result if `keepdims` is set.
    ///
    /// ```
    /// use ms_core::ops::{self, Keepdims};
    /// use ms_core::tensor;
    /// for (keepdims, shape) in [(true, &[2, 1][..]), (false, &[2])] {
    ///     assert_eq!(ops::sum(tensor![[1, 2], [3, 4]], Keepdims::when(keepdims, 1)).shape(), shape);
    /// }
    /// ```
    pub fn when(keepdims: bool, axes: A) -> Self {
        Self { axes, keepdims }
    }
}

/// Reduces over `axes`, which remain in the result with size 1.
///
/// ```
/// use ms_core::ops::{self, keepdims};
/// use ms_core::tensor;
/// let x = tensor![[1., 2.], [3., 4.]];
/// assert_eq!(ops::sum(&x, 1).shape(), [2]);
/// assert_eq!(ops::sum(&x, keepdims(1)).shape(), [2, 1]);
/// assert_eq!(ops::sum(&x, keepdims(())).shape(), [1, 1]);
/// ```
pub fn keepdims<A: ReduceAxes>(axes: A) -> Keepdims<A> {
    Keepdims::when(true, axes)
}

impl<A: ReduceAxes> ReduceAxes for Keepdims<A> {
    fn resolve(self, rank: usize) -> Result<SmallVec<[usize; 4]>> {
        self.axes.resolve(rank)
    }

    fn keepdims(&self) -> bool {
        self.keepdims || self.axes.keepdims()
    }
}

impl ReduceAxes for () {
    fn resolve(self, rank: usize) -> Result<SmallVec<[usize; 4]>> {
        Ok((0..rank).collect())
    }
}

impl<T: IntoAxes> ReduceAxes for Option<T> {
    fn resolve(self, rank: usize) -> Result<SmallVec<[usize; 4]>> {
        match self {
            Some(axes) => axes.resolve(rank),
            None => ().resolve(rank),
        }
    }
}

impl<T: IntoAxes> ReduceAxes for T {
    fn resolve(self, rank: usize) -> Result<SmallVec<[usize; 4]>> {
        let mut axes = normalize_axes(&self.into_axes(), rank)?;
        axes.sort_unstable();
        Ok(axes)
    }
}

/// Creates the error of `op` on these operands.
#[cold]
pub(crate) fn refusal(op: &str, operands: &[&Tensor], code: Code, message: impl Into<String>) -> Error {
    named(op, operands, Error::new(code, message))
}

/// Adds the op and its operands to an error.
#[cold]
pub(crate) fn named(op: &str, operands: &[&Tensor], error: Error) -> Error {
    error.with_op(op).with_operands(operands.iter().map(|it| it.ty().to_string()))
}

/// Returns the shape of an operand's type. All sizes have to be constant.
///
/// # Errors
/// [`Code::Shape`] when a dimension is symbolic.
pub(crate) fn const_shape(ty: &Type) -> Result<crate::tensor::Shape> {
    ty.shape().ok_or_else(|| Error::new(Code::Shape, format!("{ty} has symbolic dimensions")))
}
