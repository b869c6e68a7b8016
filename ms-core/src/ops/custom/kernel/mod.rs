//! Kernels that programs declare: `kernel!` of the facade traces a Rust function on numbers of kernels once, to a
//! [`Formula`](crate::ops::core::formulas::Formula), which a node of [`FORMULA`] computes for every element of its operands.

mod control;
mod number;

pub use control::{Compares, Decides, Logic};
pub use number::{Argument, Bool, Float, Returned};

use crate::error::{Code, Error, Result};
use crate::ops::core::formulas::Kind;
use crate::ops::{Domain, FORMULA, FormulaAttrs, IntoOperand, Operand, common_dtype};
use crate::tensor::{Attrs, DType, Scalar, Tensor, apply1, first_poisoned, refused};
use std::borrow::Cow;

/// A kernel that a program declares.
#[derive(Debug)]
pub struct Kernel {
    name: &'static str,
    kinds: Vec<Kind>,
    attrs: Attrs,
}

impl Kernel {
    /// The kernel of a function, which is traced here, on operands of these kinds.
    pub fn new<R: Returned>(name: &'static str, kinds: &[Kind], body: impl FnOnce() -> R) -> Self {
        let formula = number::trace(kinds, || body().value());
        Self { name, kinds: kinds.to_vec(), attrs: FormulaAttrs::attrs(name, &*formula.to_string()) }
    }

    /// The result on operands: floats in their common dtype, where bools and integers are f32, and bools; all are
    /// broadcast.
    ///
    /// # Panics
    /// Raises [`Code::DType`] for numbers where the kernel takes bools, [`Code::Shape`] where shapes do not broadcast.
    #[track_caller]
    pub fn apply(&self, operands: &[&dyn IntoOperand]) -> Tensor {
        let converted = match self.convert(operands) {
            Ok(converted) => converted,
            Err(error) => return refused(error),
        };
        let inputs: Vec<&Tensor> = converted.iter().map(|it| &**it).collect();
        if let Some(poisoned) = first_poisoned(&inputs) {
            return poisoned;
        }
        apply1(FORMULA.op(), &self.attrs, &inputs)
    }

    #[track_caller]
    fn convert<'a>(&self, operands: &[&'a dyn IntoOperand]) -> Result<Vec<Cow<'a, Tensor>>> {
        let given: Vec<Operand<'a>> = operands.iter().map(|&it| it.operand()).collect();
        let texts: Vec<String> = given.iter().map(Operand::to_string).collect();
        let of_floats = given.iter().zip(&self.kinds).filter(|it| *it.1 == Kind::Float);
        let floats: Vec<Operand<'_>> = of_floats.map(|it| it.0.operand()).collect();
        let dtype = Domain::Float.convert(common_dtype(&floats));
        drop(floats);
        let tensor = |(operand, kind): (Operand<'a>, &Kind)| match (kind, operand) {
            (Kind::Float, operand) => operand.into_tensor(dtype.clone()?),
            (Kind::Bool, Operand::Tensor(tensor)) if tensor.dtype() == DType::Bool => Ok(tensor),
            (Kind::Bool, Operand::Scalar(Scalar::Bool(it))) => Ok(Cow::Owned(Tensor::scalar(it))),
            (Kind::Bool, operand) => {
                let message = format!("a condition is bools, not {operand}");
                Err(Error::new(Code::DType, message).help("compare it with a number"))
            }
        };
        let converted: Result<Vec<Cow<'a, Tensor>>> = given.into_iter().zip(&self.kinds).map(tensor).collect();
        converted.map_err(|error| error.with_op(self.name).with_operands(texts))
    }
}
