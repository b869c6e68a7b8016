//! Operands of ops: tensors, parameters, and weak scalars.

use crate::ops::Domain;
use crate::tensor::{AsTensor, DType, Parameter, Scalar, Tensor, dispatcher, promote};
use ms_ir::error::{Code, Error, Result};
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

/// An operand of an op: a tensor, or a scalar that is converted to the dtype of the other operands.
///
/// ```
/// use ms_core::{ops, tensor};
/// use ops::{IntoOperand, Operand};
/// assert!(matches!(tensor![1.0].operand(), Operand::Tensor(_)));
/// assert_eq!(2.5.operand().scalar(), Some(2.5.into()));
/// ```
pub enum Operand<'a> {
    /// A tensor.
    Tensor(Cow<'a, Tensor>),
    /// A weak scalar, which never changes the kind or the width of a tensor.
    Scalar(Scalar),
}

/// Types that can be operands.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![1u8, 2];
/// assert_eq!(ops::add(&x, 1).to_vec::<u8>(), [2, 3]);
/// assert_eq!(ops::add(&x, tensor![0.5]).to_vec::<f32>(), [1.5, 2.5]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an operand beside a tensor",
    label = "not a tensor, a parameter or a number"
)]
pub trait IntoOperand {
    /// Returns the operand.
    fn operand(&self) -> Operand<'_>;
}

#[diagnostic::do_not_recommend]
impl IntoOperand for Tensor {
    #[inline]
    fn operand(&self) -> Operand<'_> {
        Operand::Tensor(Cow::Borrowed(self))
    }
}

#[diagnostic::do_not_recommend]
impl IntoOperand for Parameter {
    fn operand(&self) -> Operand<'_> {
        Operand::Tensor(self.as_tensor())
    }
}

#[diagnostic::do_not_recommend]
impl IntoOperand for Operand<'_> {
    fn operand(&self) -> Operand<'_> {
        match self {
            Self::Tensor(tensor) => Operand::Tensor(Cow::Borrowed(tensor)),
            Self::Scalar(scalar) => Operand::Scalar(*scalar),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: IntoOperand + ?Sized> IntoOperand for &T {
    #[inline]
    fn operand(&self) -> Operand<'_> {
        (**self).operand()
    }
}

macro_rules! scalar_operands {
    ($($ty:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl IntoOperand for $ty {
            #[inline]
            fn operand(&self) -> Operand<'_> {
                Operand::Scalar(Scalar::from(*self))
            }
        }
    )*};
}

scalar_operands! { bool i8 i16 i32 i64 u8 u16 u32 u64 usize f32 f64 half::f16 half::bf16 }

impl<'a> Operand<'a> {
    /// Returns the dtype, if this is a tensor.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Self::Tensor(tensor) => Some(tensor.dtype()),
            Self::Scalar(_) => None,
        }
    }

    /// Returns the number, if this is a scalar.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Self::Tensor(_) => None,
            Self::Scalar(scalar) => Some(*scalar),
        }
    }

    /// Converts the operand to a tensor of `dtype`.
    ///
    /// # Errors
    /// [`Code::DType`] for a scalar of a higher kind than `dtype`, or an integer outside the range of `dtype`.
    #[track_caller]
    pub fn into_tensor(self, dtype: DType) -> Result<Cow<'a, Tensor>> {
        match self {
            Self::Tensor(tensor) if tensor.dtype() == dtype => Ok(tensor),
            Self::Tensor(tensor) => Ok(Cow::Owned(crate::ops::cast(&*tensor, dtype))),
            Self::Scalar(scalar) => {
                if scalar.kind() > dtype.kind() {
                    let message = format!("the scalar {scalar} does not fit a tensor of {dtype}");
                    return Err(Error::new(Code::DType, message)
                        .help("cast the tensor first: scalars never change a tensor's kind"));
                }
                if !scalar.is_within(dtype) {
                    let message = format!("the scalar {scalar} is outside the range of {dtype}");
                    return Err(Error::new(Code::DType, message)
                        .help("cast the tensor first: scalars never change a tensor's width"));
                }
                let location = Location::caller();
                dispatcher(|it| it.number(scalar, dtype, location)).map(Cow::Owned)
            }
        }
    }
}

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(tensor) => tensor.ty().fmt(f),
            Self::Scalar(scalar) => scalar.fmt(f),
        }
    }
}

/// Returns the common dtype of operands: tensors promote, scalars follow.
///
/// ```
/// use ms_core::{DType, ops::{IntoOperand, common_dtype}, tensor};
/// let (bytes, floats) = (tensor![1u8], tensor![0.5]);
/// let [a, b, c] = [bytes.operand(), floats.operand(), 7.operand()];
/// assert_eq!(common_dtype(&[a, b, c]), DType::F32);
/// ```
pub fn common_dtype(operands: &[Operand<'_>]) -> DType {
    let tensors = operands.iter().filter_map(Operand::dtype).reduce(promote);
    let scalars = || operands.iter().filter_map(Operand::scalar).map(Scalar::default_dtype).reduce(promote);
    tensors.or_else(scalars).expect("there is an operand")
}

/// Converts the operands of the op `name` to tensors of their common dtype, in the op's domain.
///
/// ```
/// use ms_core::{DType, ops::{IntoOperand, elementwise::Domain, operands}, tensor};
/// let x = tensor![1.5];
/// let [x, y] = operands("my_op", Domain::Any, [x.operand(), 2.operand()])?;
/// assert_eq!((x.dtype(), y.item::<f32>()), (DType::F32, 2.0));
/// # Ok::<(), ms_core::Error>(())
/// ```
///
/// # Errors
/// [`Code::DType`] for a scalar of a higher kind than the tensors, or a dtype that the op does not accept.
#[track_caller]
pub fn operands<'a, const N: usize>(
    name: &str,
    domain: Domain,
    mut operands: [Operand<'a>; N],
) -> Result<[Cow<'a, Tensor>; N]> {
    let dtype = domain.convert(common_dtype(&operands)).map_err(|error| {
        let types = operands.iter().map(|it| it.to_string());
        error.with_op(name).with_operands(types)
    })?;
    // A closure would hide the source location of the caller.
    for it in &mut operands {
        if !matches!(it, Operand::Tensor(tensor) if tensor.dtype() == dtype) {
            let given = std::mem::replace(it, Operand::Scalar(Scalar::Bool(false)));
            *it = Operand::Tensor(given.into_tensor(dtype).map_err(|error| error.with_op(name))?);
        }
    }
    Ok(operands.map(|it| match it {
        Operand::Tensor(tensor) => tensor,
        Operand::Scalar(_) => unreachable!("every operand became a tensor"),
    }))
}
