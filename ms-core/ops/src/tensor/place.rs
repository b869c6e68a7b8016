//! Moves tensors between devices.

use super::dispatch::{current_dispatcher, eager};
use super::tensor::Tensor;
use ms_ir::data::{Array, Device, IntoDevice, is_host_only};
use ms_ir::error::{Code, Error, OrRaise, Result};

impl Tensor {
    /// Returns the device of the tensor.
    ///
    /// # Panics
    /// Raises [`Code::TracedValue`] while tracing: a compiled function runs on the device of its
    /// arguments.
    ///
    /// ```
    /// use ms_core::{tensor, tensor::Device};
    /// assert_eq!(tensor![1.0].device(), Device::CPU);
    /// ```
    #[track_caller]
    pub fn device(&self) -> Device {
        match self.as_array() {
            Some(array) => array.device(),
            None => Err(refuse_traced("device")).or_raise(),
        }
    }

    /// Copies the tensor to a device, unless it is there already.
    ///
    /// # Panics Raises [`Code::DeviceUnavailable`] for a device that this machine or this program does not have, and
    /// [`Code::Argument`] for text that names none. Raises [`Code::Memory`] when the device has no memory for it, and
    /// [`Code::TracedValue`] while tracing.
    ///
    /// ```
    /// use ms_core::tensor;
    /// assert_eq!(tensor![1.0, 2.0].to("cpu").to_vec::<f32>(), [1.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn to(&self, device: impl IntoDevice) -> Self {
        self.try_to(device).or_raise()
    }

    /// Copies the tensor to a device, unless it is there already.
    ///
    /// # Errors
    /// The errors that [`Tensor::to`] raises.
    pub fn try_to(&self, device: impl IntoDevice) -> Result<Self> {
        let device = device.into_device()?;
        let Some(array) = self.as_array() else { return Err(refuse_traced("to")) };
        if array.device() == device {
            return Ok(self.clone());
        }
        let moved = Self::from_array(eager().place(array.clone(), Some(device)).map_err(|it| it.with_op("to"))?);
        if let Some(top) = current_dispatcher() {
            top.copied(self, &moved);
        }
        Ok(moved)
    }

    /// Creates a tensor of an array, on the device of the settings. [`Tensor::from_array`] leaves the array where it
    /// is.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`]; the errors of the device.
    pub fn placed(array: Array) -> Result<Self> {
        match is_host_only() {
            true => Ok(Self::from_array(array)),
            false => Ok(Self::from_array(eager().place(array, None)?)),
        }
    }

    /// Moves this tensor to the device of the settings. A traced value stays.
    ///
    /// # Errors
    /// See [`Tensor::placed`].
    pub(crate) fn here(self) -> Result<Self> {
        match self.as_array() {
            Some(array) if !is_host_only() => Self::placed(array.clone()),
            _ => Ok(self),
        }
    }
}

fn refuse_traced(op: &str) -> Error {
    Error::new(Code::TracedValue, "a value of a function that is being compiled is on no device yet")
        .with_op(op)
        .help("a compiled function runs on the device of its arguments: move them before the call")
}
