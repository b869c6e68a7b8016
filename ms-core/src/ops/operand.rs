//! What ops take: tensors, parameters, and weak scalars.

use crate::error::{Code, Error, Result};
use crate::ops::CONSTANT;
use crate::tensor::{AsTensor, Attr, Attrs, DType, Literal, Parameter, Scalar, Tensor, apply, promote};
use std::borrow::Cow;

/// An operand of an op: a tensor, or a scalar that takes the dtype of the tensor it meets.
pub enum Operand<'a> {
    /// A tensor.
    Tensor(Cow<'a, Tensor>),
    /// A weak scalar: it never changes the kind or the width of a tensor.
    Scalar(Scalar),
}

/// What can be an operand.
pub trait IntoOperand {
    /// The operand.
    fn operand(&self) -> Operand<'_>;
}

impl IntoOperand for Tensor {
    #[inline]
    fn operand(&self) -> Operand<'_> {
        Operand::Tensor(Cow::Borrowed(self))
    }
}

impl IntoOperand for Parameter {
    fn operand(&self) -> Operand<'_> {
        Operand::Tensor(self.as_tensor())
    }
}

impl<T: IntoOperand + ?Sized> IntoOperand for &T {
    #[inline]
    fn operand(&self) -> Operand<'_> {
        (**self).operand()
    }
}

macro_rules! scalar_operands {
    ($($ty:ty)*) => {$(
        impl IntoOperand for $ty {
            #[inline]
            fn operand(&self) -> Operand<'_> {
                Operand::Scalar(Scalar::from(*self))
            }
        }
    )*};
}

scalar_operands! { bool i8 i16 i32 i64 u8 u16 u32 u64 usize f32 f64 half::f16 half::bf16 }

impl Operand<'_> {
    /// The dtype, if this is a tensor.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Self::Tensor(tensor) => Some(tensor.dtype()),
            Self::Scalar(_) => None,
        }
    }

    /// The operand as a tensor of `dtype`.
    ///
    /// # Errors
    /// [`Code::DType`] for a scalar of a higher kind than `dtype`.
    #[track_caller]
    pub fn into_tensor(self, dtype: DType) -> Result<Tensor> {
        match self {
            Self::Tensor(tensor) if tensor.dtype() == dtype => Ok(tensor.into_owned()),
            Self::Tensor(tensor) => Ok(super::cast(&*tensor, dtype)),
            Self::Scalar(scalar) => {
                if scalar.kind() > dtype.kind() {
                    let message = format!("the scalar {scalar} does not fit a tensor of {dtype}");
                    return Err(Error::new(Code::DType, message)
                        .help("cast the tensor first: scalars never change a tensor's kind"));
                }
                let literal = Attrs::new([Attr::Literal(Literal::scalar(scalar, dtype))]);
                Ok(apply(CONSTANT.op(), &literal, &[])?.remove(0))
            }
        }
    }
}

/// Two operands in their common dtype: tensors promote, scalars follow.
///
/// # Errors
/// [`Code::DType`] for a scalar of a higher kind than the tensor.
#[track_caller]
pub fn unify(a: Operand<'_>, b: Operand<'_>) -> Result<(Tensor, Tensor)> {
    let dtype = match (&a, &b) {
        (Operand::Scalar(a), Operand::Scalar(b)) => promote(a.default_dtype(), b.default_dtype()),
        _ => match (a.dtype(), b.dtype()) {
            (Some(a), Some(b)) => promote(a, b),
            (Some(it), None) | (None, Some(it)) => it,
            (None, None) => unreachable!("one of the two is a tensor"),
        },
    };
    Ok((a.into_tensor(dtype)?, b.into_tensor(dtype)?))
}
