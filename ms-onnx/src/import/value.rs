//! Values during the trace of a model: tensors, and lists of sizes that the trace knows.

use ms_ops::tensor::{DType, Dim, Scalar};
use ms_ops::{Tensor, ops};

/// A value of a model.
#[derive(Clone)]
pub enum Value {
    /// A constant of the model.
    Constant(Tensor),
    /// A traced result.
    Tensor(Tensor),
    /// Integers that are computed from sizes: a list or one number.
    Sizes(Vec<Dim>, Form),
    /// Truth values of comparisons between such integers.
    Flags(Vec<bool>, Form),
}

/// The rank of such integers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Number,
    List,
}

impl Value {
    /// Converts the value to a tensor.
    pub fn tensor(&self) -> Tensor {
        match self {
            Self::Constant(it) | Self::Tensor(it) => it.clone(),
            Self::Flags(flags, form) => formed(Tensor::from_slice([flags.len()], flags), *form),
            Self::Sizes(sizes, form) => {
                let constants: Option<Vec<i64>> = sizes.iter().map(|&it| number(it)).collect();
                let list = match constants {
                    Some(constants) => Tensor::from_slice([constants.len()], &constants),
                    None => {
                        let sizes: Vec<Tensor> = sizes.iter().map(|&it| ops::size(it, DType::I64)).collect();
                        ops::stack(&sizes, 0)
                    }
                };
                formed(list, *form)
            }
        }
    }

    /// Returns the value as integers that the trace knows.
    pub fn sizes(&self) -> Option<(Vec<Dim>, Form)> {
        match self {
            Self::Sizes(sizes, form) => Some((sizes.clone(), *form)),
            Self::Tensor(_) | Self::Flags(..) => None,
            Self::Constant(it) => {
                let form = match it.rank() {
                    0 => Form::Number,
                    1 => Form::List,
                    _ => return None,
                };
                let integer = |it: Scalar| match it {
                    Scalar::Int(it) => Some(Dim::signed(it)),
                    _ => None,
                };
                Some((elements(it)?.into_iter().map(integer).collect::<Option<_>>()?, form))
            }
        }
    }

    /// Returns the value as integers that do not vary between calls.
    pub fn integers(&self) -> Option<Vec<i64>> {
        self.sizes()?.0.into_iter().map(number).collect()
    }

    /// Returns the value as a number that does not vary between calls.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Self::Constant(it) => elements(it)?.first().copied(),
            Self::Sizes(sizes, _) => number(*sizes.first()?).map(Scalar::Int),
            Self::Tensor(_) | Self::Flags(..) => None,
        }
    }
}

/// Reads the elements of a constant, which may be on a device.
fn elements(of: &Tensor) -> Option<Vec<Scalar>> {
    Some(of.as_array()?.clone().into_host().ok()?.scalars())
}

fn formed(list: Tensor, form: Form) -> Tensor {
    if form == Form::Number { list.reshape(()) } else { list }
}

/// Returns the number in a size, if it is not symbolic.
pub fn number(size: Dim) -> Option<i64> {
    size.as_known()
}
