//! Elementwise kernels that programs declare.
//!
//! `kernel!` of the facade traces a Rust function on kernel values once, to a
//! [`Formula`](crate::ops::core::formulas::Formula) for each result. A node of [`FORMULA`] computes it for every
//! element of its operands. Eagerly each result is a step; compiled, nodes on the same operands are fused to one
//! kernel.

mod control;
mod method;
mod number;

pub use control::{Compares, Decides, Logic};
pub use number::{Bool, F32, F64, Float, I8, I16, I32, I64, Int, Returned, U8, U16, U32, U64, Value};

use crate::ops::core::formulas::Kind;
use crate::ops::{Domain, FORMULA, FormulaAttrs, IntoOperand, Operand, common_dtype};
use crate::tensor::{Attrs, DType, Scalar, Tensor, apply1, first_poisoned, refused};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use std::array;
use std::borrow::Cow;

/// Implements `x as I32` in a kernel: see [`Value::to`].
pub fn cast<T: Value>(x: impl Value) -> T {
    x.to()
}

/// A kernel that a program declares.
#[derive(Debug)]
pub struct Kernel {
    name: &'static str,
    kinds: Vec<Kind>,
    /// The attributes of each result's node.
    results: Vec<Attrs>,
}

impl Kernel {
    /// Traces a function on operands of these kinds to a kernel.
    pub fn new<R: Returned>(name: &'static str, kinds: &[Kind], body: impl FnOnce() -> R) -> Self {
        let formulas = number::trace(kinds, || body().values());
        let results = formulas.map_vec(|it| FormulaAttrs::attrs(name, &*it.to_string()));
        Self { name, kinds: kinds.to_vec(), results }
    }

    /// Applies the kernel to operands, which are broadcast.
    ///
    /// [`Float`] operands are converted to their common dtype, with bools and integers as f32. [`Int`] operands are
    /// converted to their common dtype. Tensors of other kinds have the dtype of the kind, and numbers are converted to
    /// it.
    ///
    /// # Panics
    /// Raises [`Code::DType`] for operands of other dtypes, and [`Code::Shape`] where shapes do not broadcast.
    #[track_caller]
    pub fn apply<const N: usize>(&self, operands: &[&dyn IntoOperand]) -> [Tensor; N] {
        let converted = match self.convert(operands) {
            Ok(converted) => converted,
            Err(error) => {
                let poisoned = refused(error);
                return array::from_fn(|_| poisoned.clone());
            }
        };
        let inputs: Vec<&Tensor> = converted.map_vec(|it| &**it);
        if let Some(poisoned) = first_poisoned(&inputs) {
            return array::from_fn(|_| poisoned.clone());
        }
        let mut results = Vec::with_capacity(N);
        for attrs in &self.results {
            results.push(apply1(FORMULA.op(), attrs, &inputs));
        }
        results.try_into().expect("the declaration has as many results as the body")
    }

    #[track_caller]
    fn convert<'a>(&self, operands: &[&'a dyn IntoOperand]) -> Result<Vec<Cow<'a, Tensor>>> {
        let given: Vec<Operand<'a>> = operands.map_vec(|&it| it.operand());
        let texts: Vec<String> = given.map_vec(Operand::to_string);
        let common = |kind, domain: Domain| {
            let of_kind = given.iter().zip(&self.kinds).filter(|it| *it.1 == kind);
            domain.convert(common_dtype(&of_kind.map(|it| it.0.operand()).collect::<Vec<_>>()))
        };
        let tensor = |(operand, kind): (Operand<'a>, &Kind)| match (*kind, operand) {
            (Kind::Float, operand) => operand.into_tensor(common(Kind::Float, Domain::Float)?),
            (Kind::Int, operand) => operand.into_tensor(common(Kind::Int, Domain::Integer)?),
            (Kind::Bool, Operand::Tensor(tensor)) if tensor.dtype() == DType::Bool => Ok(tensor),
            (Kind::Bool, Operand::Scalar(Scalar::Bool(it))) => Ok(Cow::Owned(Tensor::scalar(it))),
            (Kind::Bool, operand) => {
                let message = format!("a condition is bools, not {operand}");
                Err(Error::new(Code::DType, message).help("compare it with a number"))
            }
            (Kind::Of(dtype), Operand::Tensor(tensor)) if tensor.dtype() != dtype => {
                Err(Error::new(Code::DType, format!("takes {dtype}, not {}", tensor.ty())).help("cast first"))
            }
            (Kind::Of(dtype), operand) => operand.into_tensor(dtype),
        };
        let converted: Result<Vec<Cow<'a, Tensor>>> =
            operands.iter().map(|&it| it.operand()).zip(&self.kinds).map(tensor).collect();
        converted.map_err(|error| error.with_op(self.name).with_operands(texts))
    }
}
