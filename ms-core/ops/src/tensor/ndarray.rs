//! Converts from and to the arrays of the `ndarray` crate.

use super::tensor::Tensor;
use ms_ir::data::{Array, Element};
use ms_ir::error::{Error, OrRaise, Result};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for Tensor {
    /// Copies the elements, whatever their order in memory.
    fn from(array: &ArrayBase<S, D>) -> Self {
        let mut out = Array::zeros(array.shape(), T::DTYPE);
        out.as_mut_slice::<T>().iter_mut().zip(array).for_each(|(to, from)| *to = *from);
        Self::placed(out).or_raise()
    }
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<ArrayBase<S, D>> for Tensor {
    fn from(array: ArrayBase<S, D>) -> Self {
        Self::from(&array)
    }
}

impl<T: Element> TryFrom<&Tensor> for ArrayD<T> {
    type Error = Error;

    /// Copies the elements.
    ///
    /// # Errors
    /// [`Code::DType`](crate::Code::DType) when `T` is not the element type,
    /// [`Code::TracedValue`](crate::Code::TracedValue) while tracing.
    fn try_from(tensor: &Tensor) -> Result<Self> {
        let elements = tensor.try_to_vec::<T>()?;
        Ok(ArrayD::from_shape_vec(IxDyn(tensor.shape()), elements).expect("a tensor has as many elements as its shape"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, DType, tensor};
    use ndarray::{Array2, arr2, s};

    #[test]
    fn there_and_back() {
        let array: Array2<i32> = arr2(&[[1, 2, 3], [4, 5, 6]]);
        let backwards = Tensor::from(array.slice(s![.., ..;-2]));
        assert_eq!(backwards.shape(), [2, 2]);
        assert_eq!(backwards.to_vec::<i32>(), [3, 1, 6, 4]);
        assert_eq!(backwards.dtype(), DType::I32);
        let back = ArrayD::<f32>::try_from(&tensor![[1., 2.]]).expect("the dtype fits");
        assert_eq!(back, ndarray::arr2(&[[1f32, 2.]]).into_dyn());
        let wrong = ArrayD::<f64>::try_from(&tensor![1.]).expect_err("the dtype differs");
        assert_eq!(wrong.code(), Code::DType);
    }
}
