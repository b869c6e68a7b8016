//! The shape and the elements of a tensor, as programs read them, and tensors of elements of a program.

use super::dispatch::{DispatchMode, current_dispatcher, dispatch_mode, dispatcher, eager};
use super::tensor::{Content, Tensor};
use super::traced::Traced;
use ms_ir::data::{Array, Dim, Dims, Element, IntoShape, Number, Type, count, own_scalar, try_room};
use ms_ir::error::{Code, Error, OrRaise, Result, in_op, raise};
use std::panic::Location;

impl Tensor {
    /// Creates a tensor of `data` in row-major order.
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

    /// Creates a tensor of `data` in row-major order. Raises [`Code::Shape`] when the shape does not fit.
    ///
    /// ```
    /// use ms_core::Tensor;
    /// assert_eq!(Tensor::from_slice([2, 2], &[1i64, 2, 3, 4]).at(1).to_vec::<i64>(), [3, 4]);
    /// ```
    #[track_caller]
    pub fn from_slice<T: Element>(shape: impl IntoShape, data: &[T]) -> Self {
        Self::try_from_slice(shape, data).or_raise()
    }

    /// Creates a zero-dimensional tensor of the number's Rust type. The types of numbers without a suffix are
    /// exceptions: f64 becomes f32, and i32 becomes i64. `Tensor::from` preserves them.
    ///
    /// # Panics
    /// Raises [`Code::DType`] for an f64 beyond the range of f32.
    ///
    /// ```
    /// use ms_core::{DType, Tensor};
    /// let tensors = [Tensor::scalar(0.5), Tensor::scalar(7), Tensor::scalar(7u8)];
    /// assert_eq!(tensors.map(|it| it.dtype()), [DType::F32, DType::I64, DType::U8]);
    /// assert_eq!(Tensor::from(0.1).item::<f64>(), 0.1);
    /// ```
    #[track_caller]
    pub fn scalar<N: Number>(value: N) -> Self {
        let (value, dtype) = own_scalar(value).map_err(|it| it.with_op("scalar")).or_raise();
        Self::placed(Array::full(&[], value, dtype)).or_raise()
    }

    /// Returns the sizes of all dimensions. Raises [`Code::SymbolicShape`] for a symbolic dimension; use
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

    /// Returns the number of dimensions.
    #[track_caller]
    pub fn rank(&self) -> usize {
        match &*self.content {
            Content::Array(array) => array.layout().rank(),
            Content::Number(_) => 0,
            Content::Traced(traced) if traced.poisoned => refuse_shape(traced),
            Content::Traced(traced) => traced.ty.rank(),
        }
    }

    /// Returns the size of one dimension, constant or symbolic. A negative axis counts from the end.
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

    /// Returns the sizes of all dimensions, constant or symbolic.
    #[track_caller]
    pub fn dims(&self) -> Dims {
        match &*self.content {
            Content::Array(array) => array.shape().iter().map(|&it| Dim::new(it)).collect(),
            Content::Number(_) => Dims::new(),
            Content::Traced(traced) if traced.poisoned => refuse_shape(traced),
            Content::Traced(traced) => traced.ty.dims.clone(),
        }
    }

    /// Returns the number of elements.
    #[track_caller]
    pub fn numel(&self) -> usize {
        self.shape().iter().product()
    }

    /// Returns the array of the tensor.
    ///
    /// # Errors
    /// [`Code::TracedValue`] while tracing; [`Code::Escaped`] for a tensor that leaked out of a region without the
    /// trace's knowledge.
    #[track_caller]
    pub fn try_array(&self) -> Result<Array> {
        if self.dtype().is_float() && dispatch_mode() == DispatchMode::Tape {
            let location = Location::caller();
            dispatcher(|it| it.note_read(self, location));
        }
        self.elements()
    }

    /// Returns the array like [`Tensor::try_array`], for reads by the library rather than the user.
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

    /// Returns the elements in row-major order. Raises [`Code::DType`] when `T` is not the element type,
    /// [`Code::Memory`] when the system has no memory for them, and [`Code::TracedValue`] while tracing.
    ///
    /// ```
    /// use ms_core::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        self.try_to_vec().or_raise()
    }

    /// Returns the elements in row-major order.
    ///
    /// # Errors
    /// The errors that [`Tensor::to_vec`] raises.
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

    /// Returns the only element, in its dtype. Raises [`Code::Shape`] unless there is exactly one, [`Code::DType`] when
    /// `T` is not the element type, and [`Code::TracedValue`] while tracing.
    ///
    /// ```
    /// use ms_core::tensor;
    /// assert_eq!(tensor![[1.0, 2.0]].sum(()).item::<f32>(), 3.0);
    /// ```
    #[track_caller]
    pub fn item<T: Element>(&self) -> T {
        self.try_item().or_raise()
    }

    /// Returns the only element.
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

// Both call the dispatcher directly, because a closure would lose the user's source location.

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
