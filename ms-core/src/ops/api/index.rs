//! Indexing: `x.at(i)`, `x.i((.., 0..3, -1))`, and updates of selections.

use crate::error::Result;
use crate::ops::core::axis::named;
use crate::ops::primitive::slice::select_ranges;
use crate::ops::{IntoOperand, broadcast_to, update};
use crate::tensor::{IntoIndices, Selection, Tensor};

impl Tensor {
    /// The part at position `index` of the first axis, without that axis; a view.
    ///
    /// # Panics
    /// Raises [`Code::OutOfRange`](crate::Code::OutOfRange) outside the axis.
    #[track_caller]
    pub fn at(&self, index: impl IntoIndices) -> Self {
        self.i(index)
    }

    /// The selection of an index expression, as in NumPy; a view.
    ///
    /// Integers (negative ones count from the end) remove their axis; ranges, optionally with
    /// [`.step(n)`](crate::tensor::WithStep), keep it;
    /// [`NewAxis`](crate::tensor::NewAxis) adds one and [`Ellipsis`](crate::tensor::Ellipsis)
    /// stands for the remaining axes.
    ///
    /// # Panics
    /// Raises [`Code::OutOfRange`](crate::Code::OutOfRange) for an integer outside its axis.
    ///
    /// ```
    /// # use ms_core::{Tensor, tensor, tensor::{Ellipsis, WithStep}};
    /// let x = Tensor::zeros([4, 6, 3]);
    /// assert_eq!(x.i((.., 0..3, -1)).shape(), [4, 3]);
    /// assert_eq!(tensor![1, 2, 3].i((..).step(-1)).to_vec::<i64>(), [3, 2, 1]);
    /// assert_eq!(x.i((Ellipsis, 0)).shape(), [4, 6]);
    /// ```
    #[track_caller]
    pub fn i(&self, indices: impl IntoIndices) -> Self {
        propagate_poison!(&self);
        let selection = or_poison!(self.selection("index", indices));
        crate::ops::reshape(select_ranges(self, &selection), &selection.shape)
    }

    /// This tensor with the selection of an index expression replaced by `value`, which broadcasts.
    ///
    /// # Panics
    /// Raises [`Code::OutOfRange`](crate::Code::OutOfRange) for an integer outside its axis, and
    /// [`Code::Shape`](crate::Code::Shape) when `value` does not broadcast to the selection.
    #[track_caller]
    pub fn set_at(&self, indices: impl IntoIndices, value: impl IntoOperand) -> Self {
        propagate_poison!(&self);
        let selection = or_poison!(self.selection("set_at", indices));
        let value = or_poison!(value.operand().into_tensor(self.dtype()).map_err(|it| named("set_at", &[self], it)));
        let value = crate::ops::reshape(broadcast_to(&*value, &selection.shape), &selection.sizes);
        let starts: Vec<i64> = selection.starts.iter().map(|it| it.raw()).collect();
        let steps: Vec<i64> = selection.steps.iter().map(|&it| it as i64).collect();
        update(self, &value, &starts, &steps)
    }

    /// Replaces this tensor by [`Tensor::set_at`] of it; clones keep the old elements.
    ///
    /// # Panics
    /// As [`Tensor::set_at`].
    #[track_caller]
    pub fn assign_at(&mut self, indices: impl IntoIndices, value: impl IntoOperand) {
        *self = self.set_at(indices, value);
    }

    #[track_caller]
    fn selection(&self, op: &str, indices: impl IntoIndices) -> Result<Selection> {
        Selection::resolve(&indices.into_indices(), &self.dims()).map_err(|it| named(op, &[self], it))
    }
}
