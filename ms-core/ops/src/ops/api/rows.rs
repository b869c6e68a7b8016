//! Iteration over the first axis.

use crate::ops::core::axis::refusal;
use crate::tensor::Tensor;
use ms_ir::error::{Code, OrRaise};
use std::ops::Range;

/// An iterator over the slices along a tensor's first axis; see [`Tensor::rows`].
///
/// See the example of [`Tensor::rows`].
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    tensor: &'a Tensor,
    left: Range<usize>,
}

impl Tensor {
    /// Iterates over the slices along the first axis, in order and without copies. A `for` loop over a tensor calls
    /// this; a trace unrolls the loop.
    ///
    /// ```
    /// # use ms_core::{ops, tensor::Tensor};
    /// let x = ops::ones([3, 2]);
    /// let mut sum = ops::zeros([2]);
    /// for row in &x {
    ///     sum = sum + row;
    /// }
    /// assert_eq!(sum.to_vec::<f32>(), [3.0, 3.0]);
    /// ```
    ///
    /// # Panics
    /// Raises [`Code::Shape`] for a tensor of rank 0, and [`Code::SymbolicShape`] if the first axis has a symbolic
    /// size.
    #[track_caller]
    pub fn rows(&self) -> Rows<'_> {
        let first = self.dims().first().copied();
        let refuse = || match first {
            Some(_) => {
                refusal("rows", &[self], Code::SymbolicShape, "how many rows there are varies from call to call").help(
                    "count over them on the device: `for i in ms::range(0, x.dim(0))` and `ops::gather(&x, &i, 0)`",
                )
            }
            None => refusal("rows", &[self], Code::Shape, "a tensor without axes has no rows"),
        };
        Rows { tensor: self, left: 0..first.and_then(|it| it.as_const()).ok_or_else(refuse).or_raise() }
    }
}

impl<'a> IntoIterator for &'a Tensor {
    type Item = Tensor;
    type IntoIter = Rows<'a>;

    #[track_caller]
    fn into_iter(self) -> Rows<'a> {
        self.rows()
    }
}

impl Iterator for Rows<'_> {
    type Item = Tensor;

    fn next(&mut self) -> Option<Tensor> {
        self.left.next().map(|at| self.tensor.at(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl DoubleEndedIterator for Rows<'_> {
    fn next_back(&mut self) -> Option<Tensor> {
        self.left.next_back().map(|at| self.tensor.at(at))
    }
}

impl ExactSizeIterator for Rows<'_> {}
