//! Converts operands to tensors.

use super::parameter::Parameter;
use super::tensor::Tensor;
use std::borrow::Cow;

/// An operand that converts to a tensor: tensors, parameters (read at that point), and references to them.
///
/// ```
/// use ms_core::{Parameter, Tensor, ops, tensor, tensor::AsTensor};
/// fn doubled(x: impl AsTensor) -> Tensor {
///     ops::mul(&*x.as_tensor(), 2)
/// }
/// let parameter = Parameter::new(tensor![3.0], "p");
/// assert_eq!((doubled(tensor![1.0]).item::<f32>(), doubled(&parameter).item::<f32>()), (2.0, 6.0));
/// ```
pub trait AsTensor {
    /// The tensor.
    fn as_tensor(&self) -> Cow<'_, Tensor>;
}

#[diagnostic::do_not_recommend]
impl AsTensor for Tensor {
    #[inline]
    fn as_tensor(&self) -> Cow<'_, Tensor> {
        Cow::Borrowed(self)
    }
}

#[diagnostic::do_not_recommend]
impl AsTensor for Parameter {
    fn as_tensor(&self) -> Cow<'_, Tensor> {
        Cow::Owned(self.value())
    }
}

#[diagnostic::do_not_recommend]
impl<T: AsTensor + ?Sized> AsTensor for &T {
    #[inline]
    fn as_tensor(&self) -> Cow<'_, Tensor> {
        (**self).as_tensor()
    }
}
