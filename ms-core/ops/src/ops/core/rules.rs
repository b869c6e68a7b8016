//! Rules that ops share: shapes, ranges of arguments, and gradients of broadcasting.

use crate::tensor::{AsTensor, DType, Dim, Dims, Shape, Tensor, broadcast_shapes, broadcast_sizes};
use ms_ir::error::{Code, Error, Result};
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt::Display;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::RangeBounds;

thread_local! {
    /// Whether a type rule of this thread has met sizes whose relation depends on the values of symbols.
    static MET_UNDECIDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `rules`, and returns whether all broadcasts were decided. `n` and 4 are undecided: which of the two broadcasts
/// depends on the value of the symbol.
#[doc(hidden)]
pub fn decides(rules: impl FnOnce()) -> bool {
    let before = MET_UNDECIDED.replace(false);
    rules();
    !MET_UNDECIDED.replace(before)
}

/// Broadcasts the dimensions of two types by NumPy's rules. If symbols decide which size broadcasts, the result is an
/// expression of both. A call in which they differ and neither is 1 fails.
///
/// # Errors
/// [`Code::Shape`] if sizes differ and neither is 1.
pub fn broadcast_dims(a: &[Dim], b: &[Dim]) -> Result<Dims> {
    let agreed = |mine: &[Dim], theirs: &[Dim]| -> Dims {
        let partner = |axis: usize| (axis + theirs.len()).checked_sub(mine.len()).map(|at| theirs[at]);
        let fits = |(axis, &dim): (usize, &Dim)| match partner(axis) {
            Some(other) if is_undecided(dim, other) => dim.broadcast(other),
            _ => dim,
        };
        mine.iter().enumerate().map(fits).collect()
    };
    broadcast_sizes(&agreed(a, b), &agreed(b, a))
}

/// Whether symbols decide if one of two axes broadcasts to the other. Sets `MET_UNDECIDED` if they do.
fn is_undecided(a: Dim, b: Dim) -> bool {
    let is_open = a != b && (a.is_symbolic() || b.is_symbolic()) && ![a, b].contains(&Dim::DYNAMIC);
    let undecided = is_open && a != 1 && b != 1;
    if undecided {
        MET_UNDECIDED.set(true);
    }
    undecided
}

/// Whether an axis broadcasts to `to`.
pub(in crate::ops) fn broadcasts_to(from: Dim, to: Dim) -> bool {
    if from == 1 || from == to {
        return true;
    }
    if from.is_symbolic() || to.is_symbolic() {
        MET_UNDECIDED.set(true);
    }
    // Size 1 is a possible value of every symbolic size.
    from.may_equal(to) || from.may_equal(Dim::new(1))
}

/// Whether dimensions may be equal; see [`Dim::may_equal`].
pub fn may_equal(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.may_equal(*b))
}

/// Checks that an operand has the shape that an op requires, without broadcasting. Symbolic sizes that may be equal are
/// checked again in calls.
///
/// # Errors
/// [`Code::Shape`] with the operand's name.
pub(in crate::ops) fn check_dims(op: &str, name: &str, operand: &Tensor, wanted: &[Dim]) -> Result<()> {
    let dims = operand.dims();
    if dims[..] == *wanted {
        return Ok(());
    }
    if may_equal(&dims, wanted) {
        // The results of these two ops are unused. Together they accept only calls in which the sizes are equal.
        let _one = crate::ops::broadcast_to(operand, wanted);
        let _other = crate::ops::broadcast_to(crate::ops::full_of(wanted, 0, operand.dtype()), dims);
        return Ok(());
    }
    let message = format!("`{name}` is {}, but has to have the shape {wanted:?}", operand.ty());
    Err(Error::new(Code::Shape, message).with_op(op))
}

/// Makes calls fail in which a symbolic size is zero: the result of this op is unused, but the op rejects such a size.
#[track_caller]
pub(in crate::ops) fn check_not_zero(size: Dim) {
    if size.is_symbolic() {
        // Sizes 2 and 3 have no special cases.
        let _unread = crate::ops::full_of([Dim::new(1) / size + 2], 0, DType::Bool);
    }
}

/// Checks that an operand broadcasts to `wanted`.
///
/// # Errors
/// [`Code::Shape`] with the operand's name.
pub(in crate::ops) fn check_broadcast(op: &str, name: &str, operand: &Tensor, wanted: &[Dim]) -> Result<()> {
    if broadcast_dims(wanted, &operand.dims()).is_ok_and(|it| may_equal(&it, wanted)) {
        return Ok(());
    }
    let message = format!("`{name}` is {}, which does not broadcast to the shape {wanted:?}", operand.ty());
    Err(Error::new(Code::Shape, message).with_op(op))
}

/// An interval of legal values of an argument.
///
/// ```
/// use ms_core::ops::rules::{Interval, check_interval};
/// assert!(check_interval("my_op", "rate", 0.0, &Interval::RATE).is_ok());
/// assert!(check_interval("my_op", "rate", 0.0, &Interval::POSITIVE).is_err());
/// ```
pub struct Interval {
    range: (Bound<f64>, Bound<f64>),
    text: &'static str,
}

impl Interval {
    /// Positive and finite: divisors.
    pub const POSITIVE: Self = Self::new(Excluded(0.0), Excluded(f64::INFINITY), "positive and finite");
    /// At least zero and finite: rates.
    pub const RATE: Self = Self::new(Included(0.0), Excluded(f64::INFINITY), "at least 0 and finite");
    /// At least zero: tolerances.
    pub const TOLERANCE: Self = Self::new(Included(0.0), Unbounded, "at least 0");
    /// From zero (inclusive) to one (exclusive): decays of moving averages.
    pub const DECAY: Self = Self::new(Included(0.0), Excluded(1.0), "at least 0 and less than 1");
    /// From zero to one: fractions.
    pub const SHARE: Self = Self::new(Included(0.0), Included(1.0), "from 0 to 1");
    /// Neither infinite nor NaN.
    pub const FINITE: Self = Self::new(Excluded(f64::NEG_INFINITY), Excluded(f64::INFINITY), "finite");
    /// All but NaN.
    pub const NUMBER: Self = Self::new(Unbounded, Included(f64::INFINITY), "a number");

    const fn new(from: Bound<f64>, to: Bound<f64>, text: &'static str) -> Self {
        Self { range: (from, to), text }
    }
}

/// Checks that an argument of an op, a layer or an optimiser is in an interval.
///
/// ```
/// use ms_core::ops::rules::{Interval, check_interval};
/// let error = check_interval("my_op", "rate", -1.0, &Interval::RATE).expect_err("a rate is not negative");
/// assert!(error.to_string().contains("`rate` is -1, but has to be at least 0"));
/// ```
///
/// # Errors
/// [`Code::Argument`] with its name, its value, and the interval.
pub fn check_interval(op: &str, name: &str, value: f64, interval: &Interval) -> Result<()> {
    if interval.range.contains(&value) {
        return Ok(());
    }
    Err(outside(op, name, value, interval.text))
}

/// Checks that a divisor is finite and not zero.
///
/// # Errors
/// The errors of [`check_interval`].
pub(crate) fn check_divisor(op: &str, name: &str, value: f64) -> Result<()> {
    if value.is_finite() && value != 0.0 {
        return Ok(());
    }
    Err(outside(op, name, value, "finite and not 0"))
}

/// Checks that a size or a step is at least one.
///
/// ```
/// use ms_core::ops::rules::check_positive;
/// assert!(check_positive("my_op", "size", 1).is_ok() && check_positive("my_op", "size", 0).is_err());
/// ```
///
/// # Errors
/// The errors of [`check_interval`].
pub fn check_positive(op: &str, name: &str, value: usize) -> Result<()> {
    if value > 0 {
        return Ok(());
    }
    Err(outside(op, name, value, "at least 1"))
}

fn outside(op: &str, name: &str, value: impl Display, valid: &str) -> Error {
    Error::new(Code::Argument, format!("`{name}` is {value}, but has to be {valid}")).with_op(op)
}

/// Returns the shape to which all of `shapes` broadcast, by NumPy's rules.
///
/// # Errors
/// [`Code::Shape`] when sizes differ and neither is 1.
pub fn broadcast_shape<'a>(shapes: impl IntoIterator<Item = &'a [usize]>) -> Result<Shape> {
    shapes.into_iter().try_fold(Shape::new(), |all, shape| broadcast_shapes(&all, shape))
}

/// Sums the gradient of a broadcast operand over the broadcast axes.
#[track_caller]
pub fn sum_to(gradient: impl AsTensor, like: &Tensor) -> Tensor {
    let gradient = gradient.as_tensor();
    let (from, to) = (gradient.ty(), like.ty());
    if from.dims == to.dims {
        return gradient.into_owned();
    }
    let extra = from.rank() - to.rank();
    let axes: SmallVec<[usize; 4]> =
        (0..from.rank()).filter(|&axis| axis < extra || (to.dims[axis - extra] == 1 && from.dims[axis] != 1)).collect();
    let summed = crate::ops::sum_axes(&gradient, &axes, true);
    if extra == 0 { summed } else { crate::ops::reshape(&summed, &to.dims) }
}

/// Converts a gradient to the type of a broadcast operand, whose dtype differs from the result's if it was promoted.
#[track_caller]
pub(in crate::ops) fn to_operand(gradient: &Tensor, operand: &Tensor) -> Tensor {
    crate::ops::cast(sum_to(gradient, operand), operand.dtype())
}

/// Returns the accumulator dtype of a sum: at least f32 for floats.
pub const fn sum_dtype(dtype: DType) -> DType {
    if dtype.is_narrow_float() { dtype.compute() } else { dtype }
}
