//! The one tensor type: an array, a number of the host, or a value of the trace that is being built.

use super::dispatch::{DispatchMode, current_dispatcher, dispatch_mode, dispatcher, eager};
use super::escape::{escaped, scope, scoped};
use super::parameter::Parameter;
use crate::error::{Code, Error, OrRaise, Result, in_op, raise};
use ms_ir::data::{
    Array, DType, Dim, Dims, Element, HostNumber, IntoShape, Number, Scalar, Shape, Type, count, own_scalar, try_room,
};
use std::panic::Location;
use std::sync::{Arc, Weak};

/// An n-dimensional array, a number of the host, or a value of the graph that is being traced.
///
/// Two words wide and cheap to clone: clones share memory. Ops return new tensors and never write
/// into their operands.
///
/// ```
/// use ms_core::{DType, tensor};
/// let x = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// assert_eq!((x.shape(), x.dtype()), (&[2, 3][..], DType::F32));
/// let y = (&x * 10.0).sum(0);
/// assert_eq!(y.to_vec::<f32>(), [50.0, 70.0, 90.0]);
/// ```
pub struct Tensor {
    /// The stamp of the region of control flow that this handle belongs to (see
    /// [`scoped`](super::escape::scoped)); 0 means none.
    stamp: u32,
    // Kinds are told apart behind the pointer: a handle of two scalars is passed in registers.
    content: Arc<Content>,
}

/// While it exists, no tensor that is created has a certain identity.
#[doc(hidden)]
pub struct HeldIdentity {
    _content: Weak<Content>,
}

enum Content {
    Array(Array),
    Number(HostNumber),
    Traced(Traced),
}

/// The value of a tensor that is not traced.
///
/// ```
/// use ms_core::{tensor, tensor::Value};
/// assert!(matches!(tensor![1.0, 2.0].as_value()?, Value::Array(array) if array.shape() == [2]));
/// # Ok::<(), ms_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// Elements in memory.
    Array(&'a Array),
    /// A number of the host.
    Number(&'a HostNumber),
}

impl<'a> Value<'a> {
    /// The array, which a number makes at the first call.
    ///
    /// # Panics
    /// As [`HostNumber::array`].
    #[inline]
    pub fn to_array(self) -> &'a Array {
        match self {
            Self::Array(array) => array,
            Self::Number(number) => number.array(),
        }
    }
}

/// The clone belongs to the open region of a trace, if there is one.
impl Clone for Tensor {
    #[inline]
    fn clone(&self) -> Self {
        self.stamped(scoped(self.stamp()))
    }
}

/// A value of a graph under construction.
#[derive(Debug)]
pub struct Traced {
    /// The trace; numbers are never reused in a process.
    pub trace: u64,
    /// The graph of the trace's stack that defines the value.
    pub frame: u32,
    /// The value in that graph.
    pub value: u32,
    /// The type of the value.
    pub ty: Type,
    /// The shape, if it is constant; otherwise it is empty.
    pub shape: Shape,
    /// Set on the results of failed ops: ops on them are not reported again.
    pub poisoned: bool,
}

impl Tensor {
    #[inline]
    fn new(content: Content) -> Self {
        Self { stamp: 0, content: Arc::new(content) }
    }

    /// A tensor of an array, on the device of the array.
    #[inline]
    pub fn from_array(array: Array) -> Self {
        Self::new(Content::Array(array))
    }

    /// A zero-dimensional tensor of a number of the host, which has no array until one is needed.
    pub fn from_number(value: Scalar, dtype: DType) -> Self {
        Self::new(Content::Number(HostNumber::new(value, dtype)))
    }

    /// A traced value.
    pub fn from_traced(traced: Traced) -> Self {
        Self::new(Content::Traced(traced))
    }

    /// The region that this handle belongs to; 0 for none.
    #[inline]
    #[doc(hidden)]
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    #[inline]
    fn stamped(&self, stamp: u32) -> Self {
        Self { stamp, content: self.content.clone() }
    }

    /// A clone that belongs to the open region, whichever this handle belongs to: for results of a
    /// region.
    #[doc(hidden)]
    pub fn adopted(&self) -> Self {
        self.stamped(scope())
    }

    /// This handle without a region: for values that outlive all of them.
    #[inline]
    #[doc(hidden)]
    pub fn unstamped(mut self) -> Self {
        self.stamp = 0;
        self
    }

    /// The array, if this is not a traced value.
    #[inline]
    pub fn as_array(&self) -> Option<&Array> {
        match &*self.content {
            Content::Array(array) => Some(array),
            Content::Number(number) => Some(number.array()),
            Content::Traced(_) => None,
        }
    }

    /// The value of a tensor that is not traced, without making an array of a number.
    ///
    /// # Errors
    /// As for [`Tensor::array`].
    #[inline]
    pub fn as_value(&self) -> Result<Value<'_>> {
        match &*self.content {
            Content::Array(array) => Ok(Value::Array(array)),
            Content::Number(number) => Ok(Value::Number(number)),
            Content::Traced(traced) => Err(escaped(traced)),
        }
    }

    /// The traced value, if this is one.
    #[inline]
    pub fn as_traced(&self) -> Option<&Traced> {
        match &*self.content {
            Content::Array(_) | Content::Number(_) => None,
            Content::Traced(traced) => Some(traced),
        }
    }

    /// Whether this is the result of an op that failed while tracing.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.as_traced().is_some_and(|it| it.poisoned)
    }

    /// Whether this is a value of a graph under construction.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.as_traced().is_some()
    }

    /// The address that all clones of this tensor share while one of them lives.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.content) as usize
    }

    /// Keeps the identity from being used again, without the elements.
    #[doc(hidden)]
    pub fn hold_identity(&self) -> HeldIdentity {
        HeldIdentity { _content: Arc::downgrade(&self.content) }
    }

    /// Returns a tensor with the same elements and a new identity.
    ///
    /// ```
    /// use ms_core::tensor;
    /// let x = tensor![1.0];
    /// assert!(x.clone().identity() == x.identity() && x.fresh().identity() != x.identity());
    /// ```
    pub fn fresh(&self) -> Self {
        match &*self.content {
            Content::Array(array) => Self::from_array(array.clone()),
            Content::Number(number) => Self::new(Content::Number(number.clone())),
            Content::Traced(_) => self.clone(),
        }
    }

    /// A tensor of `data` in row-major order.
    ///
    /// ```
    /// use ms_core::Tensor;
    /// assert_eq!(Tensor::try_from_slice([2, 2], &[1u8, 2, 3, 4])?.shape(), [2, 2]);
    /// assert!(Tensor::try_from_slice([3], &[1u8, 2]).is_err());
    /// # Ok::<(), ms_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Code::Shape`] when the shape does not have as many elements as `data`, [`Code::Memory`] when
    /// the system has no memory for it.
    pub fn try_from_slice<T: Element>(shape: impl IntoShape, data: &[T]) -> Result<Self> {
        let shape = shape.into_shape();
        if count(&shape) != Some(data.len()) {
            return Err(Error::new(Code::Shape, format!("{} elements do not fill shape {shape:?}", data.len())));
        }
        Type::of(T::DTYPE, &shape).check_size()?;
        in_op(|| Self::placed(Array::from_slice(&shape, data))).map_err(|it| it.with_op("from_slice"))
    }

    /// A tensor of `data` in row-major order; raises [`Code::Shape`] when the shape does not fit.
    ///
    /// ```
    /// use ms_core::Tensor;
    /// assert_eq!(Tensor::from_slice([2, 2], &[1i64, 2, 3, 4]).at(1).to_vec::<i64>(), [3, 4]);
    /// ```
    #[track_caller]
    pub fn from_slice<T: Element>(shape: impl IntoShape, data: &[T]) -> Self {
        Self::try_from_slice(shape, data).or_raise()
    }

    /// A zero-dimensional tensor of the number's Rust type, except that f64 and i32, the types of
    /// numbers without a suffix, become f32 and i64. `Tensor::from` preserves them.
    ///
    /// # Panics
    /// Raises [`Code::DType`] for an f64 beyond the range of f32.
    ///
    /// ```
    /// use ms_core::{DType, Tensor};
    /// assert_eq!([Tensor::scalar(0.5), Tensor::scalar(7), Tensor::scalar(7u8)].map(|it|
    /// it.dtype()), [DType::F32, DType::I64, DType::U8]);
    /// assert_eq!(Tensor::from(0.1).item::<f64>(), 0.1);
    /// ```
    #[track_caller]
    pub fn scalar<N: Number>(value: N) -> Self {
        let (value, dtype) = own_scalar(value).map_err(|it| it.with_op("scalar")).or_raise();
        Self::placed(Array::full(&[], value, dtype)).or_raise()
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        match &*self.content {
            Content::Array(array) => array.dtype(),
            Content::Number(number) => number.dtype(),
            Content::Traced(traced) => traced.ty.dtype,
        }
    }

    /// The sizes of all dimensions. Raises [`Code::SymbolicShape`] for a symbolic dimension; use
    /// [`Tensor::dim`] there.
    #[track_caller]
    #[inline]
    pub fn shape(&self) -> &[usize] {
        match &*self.content {
            Content::Array(array) => array.shape(),
            Content::Number(_) => &[],
            Content::Traced(traced) if !traced.poisoned && traced.shape.len() == traced.ty.rank() => &traced.shape,
            Content::Traced(traced) => refuse_shape(traced),
        }
    }

    /// Number of dimensions.
    #[track_caller]
    pub fn rank(&self) -> usize {
        match &*self.content {
            Content::Array(array) => array.layout().rank(),
            Content::Number(_) => 0,
            Content::Traced(traced) if traced.poisoned => refuse_shape(traced),
            Content::Traced(traced) => traced.ty.rank(),
        }
    }

    /// The size of one dimension, constant or symbolic; a negative axis counts from the end.
    ///
    /// ```
    /// use ms_core::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).dim(-1), 3);
    /// ```
    #[track_caller]
    pub fn dim(&self, axis: isize) -> Dim {
        let rank = self.rank();
        let at = if axis < 0 { axis + rank as isize } else { axis };
        if at < 0 || at >= rank as isize {
            raise(Error::new(Code::OutOfRange, format!("axis {axis} of a tensor of rank {rank}")).with_op("dim"));
        }
        match &*self.content {
            Content::Array(array) => Dim::new(array.shape()[at as usize]),
            Content::Number(_) => unreachable!("the axis was checked, and there is none"),
            Content::Traced(traced) => traced.ty.dims[at as usize],
        }
    }

    /// The sizes of all dimensions, constant or symbolic.
    #[track_caller]
    pub fn dims(&self) -> Dims {
        match &*self.content {
            Content::Array(array) => array.shape().iter().map(|&it| Dim::new(it)).collect(),
            Content::Number(_) => Dims::new(),
            Content::Traced(traced) if traced.poisoned => refuse_shape(traced),
            Content::Traced(traced) => traced.ty.dims.clone(),
        }
    }

    /// Number of elements.
    #[track_caller]
    pub fn numel(&self) -> usize {
        self.shape().iter().product()
    }

    /// The type: dtype and dimensions.
    pub fn ty(&self) -> Type {
        match &*self.content {
            Content::Array(array) => array.ty(),
            Content::Number(number) => Type::of(number.dtype(), &[]),
            Content::Traced(traced) => traced.ty.clone(),
        }
    }

    /// The array of a tensor that is not traced.
    ///
    /// # Errors
    /// [`Code::Escaped`] or [`Code::Thread`] for a traced value, which has left its trace.
    #[inline]
    pub fn array(&self) -> Result<&Array> {
        match &*self.content {
            Content::Array(array) => Ok(array),
            Content::Number(number) => Ok(number.array()),
            Content::Traced(traced) => Err(escaped(traced)),
        }
    }

    /// The array of a tensor that is not traced, without copying its metadata if this is its only
    /// handle.
    ///
    /// # Errors
    /// As for [`Tensor::array`].
    pub fn into_array(self) -> Result<Array> {
        match Arc::try_unwrap(self.content) {
            Ok(Content::Array(array)) => Ok(array),
            Ok(Content::Number(number)) => Ok(number.array().clone()),
            Ok(Content::Traced(traced)) => Err(escaped(&traced)),
            Err(content) => Self { stamp: 0, content }.array().cloned(),
        }
    }

    /// The array of the tensor.
    ///
    /// # Errors
    /// [`Code::TracedValue`] while tracing; [`Code::Escaped`] for a tensor that a region of the
    /// trace left where the trace does not see it.
    #[track_caller]
    pub fn try_array(&self) -> Result<Array> {
        if self.dtype().is_float() && dispatch_mode() == DispatchMode::Tape {
            let location = Location::caller();
            dispatcher(|it| it.note_read(self, location));
        }
        self.elements()
    }

    /// [`Tensor::try_array`] for the library itself, whose reads are not the user's.
    ///
    /// # Errors
    /// [`Code::TracedValue`] while tracing.
    #[track_caller]
    pub(crate) fn elements(&self) -> Result<Array> {
        let array = match &*self.content {
            Content::Array(array) => array,
            Content::Number(number) => number.array(),
            Content::Traced(traced) => return Err(refuse_read(traced)),
        };
        if self.stamp() != 0
            && let Some(error) = current_dispatcher().and_then(|it| it.escape(self))
        {
            return Err(error.at(Location::caller()));
        }
        Ok(array.clone())
    }

    /// The elements in row-major order. Raises [`Code::DType`] when `T` is not the element
    /// type, [`Code::Memory`] when the system has no memory for them, and [`Code::TracedValue`] while
    /// tracing.
    ///
    /// ```
    /// use ms_core::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        self.try_to_vec().or_raise()
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`] raises.
    #[track_caller]
    pub fn try_to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let array = self.try_array()?;
        if array.dtype() != T::DTYPE {
            let message = format!("elements are {}, not {}", array.dtype(), T::DTYPE);
            return Err(Error::new(Code::DType, message)
                .with_op("to_vec")
                .help(format!("cast first: `.cast(DType::{:?})`", T::DTYPE)));
        }
        let mut out =
            try_room(array.numel()).map_err(|it| it.with_op("to_vec").with_operands([array.ty().to_string()]))?;
        out.extend(array.on_host()?.iter::<T>());
        Ok(out)
    }

    /// The only element, in its dtype. Raises [`Code::Shape`] unless there is exactly one,
    /// [`Code::DType`] when `T` is not the element type, [`Code::TracedValue`] while tracing.
    ///
    /// ```
    /// use ms_core::tensor;
    /// assert_eq!(tensor![[1.0, 2.0]].sum(()).item::<f32>(), 3.0);
    /// ```
    #[track_caller]
    pub fn item<T: Element>(&self) -> T {
        self.try_item().or_raise()
    }

    /// The only element.
    ///
    /// ```
    /// use ms_core::tensor;
    /// assert!(tensor![1.0].try_item::<i64>().is_err() && tensor![1.0, 2.0].try_item::<f32>().is_err());
    /// ```
    ///
    /// # Errors
    /// [`Code::Shape`] unless there is exactly one element, [`Code::DType`] when `T` is not the
    /// element type, [`Code::TracedValue`] while tracing.
    #[track_caller]
    pub fn try_item<T: Element>(&self) -> Result<T> {
        let all = self.try_to_vec()?;
        match all[..] {
            [one] => Ok(one),
            _ => Err(Error::new(Code::Shape, format!("one element expected, not {}", all.len()))
                .with_op("item")
                .with_operands([self.ty().to_string()])),
        }
    }
}

// Both call the dispatcher directly: a closure would lose the user's line.

#[track_caller]
#[cold]
fn refuse_shape(traced: &Traced) -> ! {
    match current_dispatcher() {
        Some(top) => top.refuse_shape(traced),
        None => eager().refuse_shape(traced),
    }
}

#[track_caller]
#[cold]
fn refuse_read(traced: &Traced) -> Error {
    match current_dispatcher() {
        Some(top) => top.refuse_read(traced),
        None => eager().refuse_read(traced),
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Tensor>();
    shared::<Parameter>();
    assert!(size_of::<Tensor>() == 16);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of what a tensor points to needs no call of `memcpy` on x86-64.
    #[test]
    fn contents_are_small() {
        assert!(size_of::<Content>() + 2 * size_of::<usize>() <= 128, "{}", size_of::<Content>());
    }
}
