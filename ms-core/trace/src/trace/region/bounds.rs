//! Defines the bounds of `ms::range`, and the counter of a loop over it.

use ms_ir::error::{Code, Error, raise};
use ms_ops::ops;
use ms_ops::tensor::{DType, Dim, Parameter, Tensor};

/// The bounds of a range.
#[derive(Clone)]
pub(super) struct Bounds {
    pub start: Tensor,
    pub stop: Bound,
    pub first: Bound,
    pub step: i64,
}

/// A bound of a [`range`](super::range): a number, a size, or a tensor of one integer.
#[derive(Clone)]
pub enum Bound {
    /// A host value.
    Number(i64),
    /// A traced or device value.
    Tensor(Tensor),
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Bound {
            fn from(it: $ty) -> Self {
                Self::Number(it as i64)
            }
        }
    )*};
}

numbers! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize }

impl From<Tensor> for Bound {
    fn from(it: Tensor) -> Self {
        Self::Tensor(it)
    }
}

impl From<Dim> for Bound {
    fn from(size: Dim) -> Self {
        match size.as_const() {
            Some(size) => size.into(),
            None => Self::Tensor(ops::size(size, DType::I64)),
        }
    }
}

impl From<&Tensor> for Bound {
    fn from(it: &Tensor) -> Self {
        Self::Tensor(it.clone())
    }
}

impl From<&Parameter> for Bound {
    #[track_caller]
    fn from(it: &Parameter) -> Self {
        Self::Tensor(it.value())
    }
}

impl Bound {
    /// Returns the bound as an `i64[]`.
    #[track_caller]
    pub(super) fn tensor(&self) -> Tensor {
        match self {
            Self::Number(it) => Tensor::scalar(*it),
            Self::Tensor(it) => {
                if !it.dtype().is_int() || it.numel() != 1 {
                    let message = format!("a bound of a range is one integer, not {}", it.ty());
                    raise(Error::new(Code::DType, message).with_op("range"));
                }
                ops::reshape(ops::cast(it, DType::I64), [0usize; 0])
            }
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Self::Number(it) => Some(*it),
            Self::Tensor(_) => None,
        }
    }
}

impl Bounds {
    /// Returns the trip count, if it is fixed.
    pub fn count(&self) -> Option<usize> {
        let (first, stop, step) = (self.first.number()? as i128, self.stop.number()? as i128, self.step as i128);
        let (span, step) = ((stop - first) * step.signum(), step.abs());
        let count = (span + step - 1).div_euclid(step);
        Some(usize::try_from(count.max(0)).unwrap_or(usize::MAX))
    }

    /// Returns the bounds that are tensors.
    pub fn tensors(&self) -> Vec<Tensor> {
        let stop = match &self.stop {
            Bound::Tensor(it) => Some(it.clone()),
            Bound::Number(_) => None,
        };
        std::iter::once(self.start.clone()).chain(stop).collect()
    }

    /// Returns whether there is an iteration for this number.
    #[track_caller]
    pub fn holds(&self, now: &Tensor) -> Tensor {
        let stop = match &self.stop {
            Bound::Tensor(it) => Bound::Tensor(it.adopted()),
            number => number.clone(),
        };
        let stop = stop.tensor();
        if self.step > 0 { ops::less(now, &stop) } else { ops::greater(now, &stop) }
    }
}

/// The counter of a traced loop.
pub(super) struct Counter {
    pub bounds: Bounds,
    pub now: Tensor,
}

impl Counter {
    /// Returns the value in the next iteration.
    pub fn next(&self) -> Tensor {
        ops::add(&self.now, self.bounds.step)
    }
}
