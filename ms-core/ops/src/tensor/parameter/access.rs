//! Creates, reads and writes slots through the current dispatcher.

use super::created::once;
use super::store::Store;
use super::{Parameter, Role};
use crate::tensor::dispatch::{Eagerly, current_dispatcher, dispatcher, eager, with_dispatcher};
use crate::tensor::{DType, IntoShape, Tensor, Type};
use ms_ir::error::{Code, Error, OrRaise, Result, raise};
use std::panic::Location;
use std::rc::Rc;

impl Parameter {
    /// Creates a trainable slot with the result of `init` as initial value. `init` runs eagerly, even while a function
    /// that creates the slot is being traced, and only once, however often that function runs.
    ///
    /// ```
    /// use ms_core::{DType, Parameter, Tensor};
    /// let weight = Parameter::init("weight", [2, 3], DType::F32, || Tensor::ones([2, 3]));
    /// assert_eq!(weight.value().shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    /// Raises [`Code::Shape`](crate::Code::Shape) when the value does not have the given shape and dtype. Raises
    /// [`Code::Created`](crate::Code::Created) when `init` needs the parameter itself.
    #[track_caller]
    pub fn init(name: &str, shape: impl IntoShape, dtype: DType, init: impl FnOnce() -> Tensor) -> Self {
        Self::init_as(name, Type::of(dtype, &shape.into_shape()), Role::Value, init)
    }

    /// Creates an unnamed slot for state that is saved but never trained: running statistics, counters, moments of an
    /// optimiser. `init` computes the initial value, as in [`Parameter::init`].
    ///
    /// ```
    /// use ms_core::{DType, Parameter, Tensor};
    /// let mean = Parameter::buffer([], DType::F32, || Tensor::scalar(0.0));
    /// mean.set_requires_grad(true);
    /// assert!(!mean.requires_grad());
    /// ```
    ///
    /// # Panics
    /// See [`Parameter::init`].
    #[track_caller]
    pub fn buffer(shape: impl IntoShape, dtype: DType, init: impl FnOnce() -> Tensor) -> Self {
        Self::init_as("", Type::of(dtype, &shape.into_shape()), Role::Buffer, init)
    }

    #[track_caller]
    fn init_as(name: &str, ty: Type, role: Role, init: impl FnOnce() -> Tensor) -> Self {
        let here = Location::caller();
        let make = || {
            let value = with_dispatcher(Rc::new(Eagerly), init);
            if value.ty() != ty {
                let message = format!("the initial value of a parameter of {ty} is {}", value.ty());
                raise(Error::new(Code::Shape, message).at(here));
            }
            Self::make(Store::shared(value), name.to_owned(), role)
        };
        once(name, &ty, role, make)
    }

    /// Returns the value at this point of the program.
    #[track_caller]
    pub fn value(&self) -> Tensor {
        dispatcher(|it| it.read_parameter(self)).or_raise()
    }

    /// Writes a value of the same shape and dtype. The new value carries no gradient.
    #[track_caller]
    pub fn set(&self, value: &Tensor) {
        self.try_set(value).or_raise();
    }

    /// Writes a value.
    ///
    /// ```
    /// use ms_core::{Code, Parameter, tensor};
    /// let scale = Parameter::new(tensor![1.0], "scale");
    /// assert_eq!(scale.try_set(&tensor![1]).err().map(|it| it.code()), Some(Code::DType));
    /// ```
    ///
    /// # Errors
    /// [`Code::Shape`](crate::Code::Shape) or [`Code::DType`](crate::Code::DType) when the types differ.
    #[track_caller]
    pub fn try_set(&self, value: &Tensor) -> Result<()> {
        let here = Location::caller();
        let written = match current_dispatcher() {
            Some(top) => top.write_parameter(self, value),
            None => eager().write_parameter(self, value),
        };
        written.map_err(|error| error.at(here))
    }

    /// Writes a value without other references, as [`Dispatcher::advance_parameter`](crate::tensor::Dispatcher) does.
    ///
    /// # Errors
    /// See [`Parameter::try_set`].
    #[track_caller]
    pub(crate) fn advance(&self, value: &Tensor) -> Result<()> {
        match current_dispatcher() {
            Some(top) => top.advance_parameter(self, value),
            None => eager().advance_parameter(self, value),
        }
    }
}
