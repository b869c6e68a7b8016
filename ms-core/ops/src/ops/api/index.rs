//! Indexing, `x.at(i)` and `x.i((.., 0..3, -1))`, and functional updates of selections.

use crate::ops::core::axis::named;
use crate::ops::core::indices::check_index;
use crate::ops::core::rules::broadcast_dims;
use crate::ops::primitive::slice::select_ranges;
use crate::ops::{
    IntoOperand, broadcast_to, cast, dynamic_update_slice, iota, permute, reshape, select, stack, update, wrapping,
};
use crate::tensor::{DType, Dim, Dims, Index, IntoIndices, Selection, Tensor};
use ms_ir::MapVec;
use ms_ir::error::{Result, called};
use smallvec::SmallVec;

impl Tensor {
    /// Returns the slice at position `index` of the first axis, without that axis, as a view. Accepts any other index
    /// expression as well, see [`Tensor::i`].
    ///
    /// # Panics
    /// Raises [`Code::OutOfRange`](crate::Code::OutOfRange) outside the axis.
    #[track_caller]
    pub fn at(&self, index: impl IntoIndices) -> Self {
        self.i(index)
    }

    /// Returns the selection of an index expression, as in NumPy; a view unless the expression contains a tensor.
    ///
    /// Integers remove their axis; negative ones count from the end. Ranges, optionally with
    /// [`.step(n)`](crate::tensor::WithStep), keep it. [`NewAxis`](crate::tensor::NewAxis) adds an axis of size 1, and
    /// [`Ellipsis`](crate::tensor::Ellipsis) stands for the remaining axes.
    ///
    /// A tensor of integers selects positions along its axis, as in [`gather`](crate::ops::gather). The tensors of an
    /// expression, and the integers beside them, broadcast together. The axes of their common shape replace the indexed
    /// axes. They come first if a range, a new axis or an ellipsis separates two of the indices.
    ///
    /// # Panics
    /// Raises [`Code::OutOfRange`](crate::Code::OutOfRange) for an integer or a position outside its axis. Raises
    /// [`Code::DType`](crate::Code::DType) for a tensor that is not of integers, and
    /// [`Code::Shape`](crate::Code::Shape) for tensors that do not broadcast.
    ///
    /// ```
    /// # use ms_core::{Tensor, tensor, tensor::{Ellipsis, WithStep}};
    /// let x = Tensor::zeros([4, 6, 3]);
    /// assert_eq!(x.i((.., 0..3, -1)).shape(), [4, 3]);
    /// assert_eq!(tensor![1, 2, 3].i((..).step(-1)).to_vec::<i64>(), [3, 2, 1]);
    /// assert_eq!(x.i((Ellipsis, 0)).shape(), [4, 6]);
    /// let (rows, columns) = (tensor![0, 1], tensor![2, 0]);
    /// let y = tensor![[1, 2, 3], [4, 5, 6]];
    /// assert_eq!(y.at((&rows, &columns)).to_vec::<i64>(), [3, 4]);
    /// assert_eq!(y.i((.., &columns)).to_vec::<i64>(), [3, 1, 6, 4]);
    /// ```
    #[track_caller]
    pub fn i(&self, indices: impl IntoIndices) -> Self {
        propagate_poison!(&self);
        let indices = indices.into_indices();
        let selection = or_poison!(self.selection("index", &indices));
        let part = reshape(select_ranges(self, &selection), &selection.shape);
        if has_positions(&indices) { at_positions(&part, &indices, self.rank()) } else { part }
    }

    /// Returns this tensor with the selection of an index expression replaced by `value`, which broadcasts. If tensors
    /// of positions select an element several times, the last value is stored.
    ///
    /// # Panics
    /// Panics in the cases of [`Tensor::i`], and raises [`Code::Shape`](crate::Code::Shape) when `value` does not
    /// broadcast to the selection.
    ///
    /// ```
    /// # use ms_core::tensor;
    /// assert_eq!(tensor![1, 2, 3].set_at(&tensor![2, 0], 9).to_vec::<i64>(), [9, 2, 9]);
    /// ```
    #[track_caller]
    pub fn set_at(&self, indices: impl IntoIndices, value: impl IntoOperand) -> Self {
        propagate_poison!(&self);
        let indices = indices.into_indices();
        let selection = or_poison!(self.selection("set_at", &indices));
        let value = or_poison!(value.operand().into_tensor(self.dtype()).map_err(|it| named("set_at", &[self], it)));
        if let Some((axis, position)) = single_scalar_index(&indices, self.rank()) {
            return self.set_at_position(axis, position, &value);
        }
        if has_positions(&indices) {
            return self.set_positions(&indices, &value);
        }
        let value = reshape(broadcast_to(&*value, &selection.shape), &selection.sizes);
        let steps: Vec<i64> = selection.steps.map_vec(|&it| it as i64);
        update(self, &value, &*selection.starts, &steps)
    }

    /// Replaces this tensor by the result of [`Tensor::set_at`]; clones keep the old elements.
    ///
    /// # Panics
    /// Panics in the cases of [`Tensor::set_at`].
    #[track_caller]
    pub fn assign_at(&mut self, indices: impl IntoIndices, value: impl IntoOperand) {
        *self = self.set_at(indices, value);
    }

    /// Implements [`Tensor::set_at`] for a single position along one axis, with all other axes whole.
    #[track_caller]
    fn set_at_position(&self, axis: usize, position: &Self, value: &Self) -> Self {
        let _called = called("set_at");
        propagate_poison!(position);
        or_poison!(check_integers(position));
        let mut dims = self.dims();
        let size = crate::ops::size(dims.remove(axis), DType::I64);
        let slice = broadcast_to(value, &dims).expand_dims(axis as isize);
        let position = cast(position, DType::I64);
        let start = select(position.lt(0), &position + size, &position);
        dynamic_update_slice(self, slice, start, axis as isize)
    }

    /// Implements [`Tensor::set_at`] by a scatter: the expression is applied to the row-major indices of the elements.
    #[cold]
    #[track_caller]
    fn set_positions(&self, indices: &[Index], value: &Self) -> Self {
        let _called = called("set_at");
        let count: Dim = self.dims().into_iter().product();
        let numbers = reshape(iota(count, 0, DType::I64), self.dims()).i(indices);
        propagate_poison!(&numbers);
        let value = reshape(broadcast_to(value, numbers.dims()), [-1]);
        reshape(wrapping::scatter(reshape(self, [count]), reshape(numbers, [-1]), value, 0), self.dims())
    }

    #[track_caller]
    fn selection(&self, op: &str, indices: &[Index]) -> Result<Selection> {
        Selection::resolve(indices, &self.dims()).map_err(|it| named(op, &[self], it))
    }
}

/// Returns the axis and the position if the expression has one scalar position tensor and selects the other axes whole.
fn single_scalar_index(indices: &[Index], rank: usize) -> Option<(usize, &Tensor)> {
    let before = indices.iter().position(|it| matches!(it, Index::Positions(it) if it.rank() == 0))?;
    let is_whole = |it: &Index| matches!(it, Index::Ellipsis | Index::Slice { start: None, stop: None, step: 1 });
    let (others, behind) = (&indices[..before], &indices[before + 1..]);
    if !others.iter().chain(behind).all(is_whole) {
        return None;
    }
    let Index::Positions(position) = &indices[before] else { unreachable!("found above") };
    let axis = if others.iter().any(|it| matches!(it, Index::Ellipsis)) { rank - 1 - behind.len() } else { before };
    Some((axis, position))
}

fn has_positions(indices: &[Index]) -> bool {
    indices.iter().any(|it| matches!(it, Index::Positions(_)))
}

/// Gathers the elements that the tensors of an expression select, of an operand with `rank` axes. `part` is the operand
/// after the ranges of the expression, whole along the axes of positions.
#[cold]
#[track_caller]
fn at_positions(part: &Tensor, indices: &[Index], rank: usize) -> Tensor {
    let _called = called("index");
    let used = indices.iter().filter(|it| !matches!(it, Index::NewAxis | Index::Ellipsis)).count();
    let (mut axis, mut found) = (0, SmallVec::<[(usize, Tensor); 2]>::new());
    // `first` is the axis of the first position, and `apart` is set if others are separated from it. Integers are
    // positions here.
    let (mut first, mut ended, mut apart) = (None, false, false);
    for index in indices {
        if let Index::Positions(_) | Index::At(_) = index {
            first.get_or_insert(axis);
            apart |= ended;
        } else {
            ended |= first.is_some();
        }
        match index {
            Index::Positions(positions) => {
                propagate_poison!(positions);
                or_poison!(check_integers(positions));
                found.push((axis, positions.clone()));
                axis += 1;
            }
            Index::At(_) => {}
            Index::Slice { .. } | Index::NewAxis => axis += 1,
            Index::Ellipsis => axis += rank - used,
        }
    }
    let place = first.filter(|_| !apart).unwrap_or(0);
    if let [(axis, positions)] = &found[..] {
        return move_axes(&wrapping::gather(part, positions, *axis as isize), *axis, positions.rank(), place);
    }
    let shapes = found.iter().try_fold(Dims::new(), |shape, (_, it)| broadcast_dims(&shape, &it.dims()));
    let shape = or_poison!(shapes.map_err(|it| named("index", &[part], it)));
    let wide = |(_, it): &(usize, Tensor)| broadcast_to(cast(it, DType::I64), &shape);
    let positions = stack(&found.map_vec(wide), -1);
    let taken = |axis: &usize| found.iter().any(|it| it.0 == *axis);
    let others = (0..part.rank()).filter(|it| !taken(it));
    let order: Vec<isize> = found.iter().map(|it| it.0).chain(others).map(|it| it as isize).collect();
    move_axes(&wrapping::gather_nd(permute(part, order), positions), 0, shape.len(), place)
}

/// Moves the axes `from..from + count` to `to`, a position among the remaining axes.
#[track_caller]
fn move_axes(x: &Tensor, from: usize, count: usize, to: usize) -> Tensor {
    let mut order: Vec<isize> = (0..x.rank() as isize).collect();
    let moved: Vec<isize> = order.drain(from..from + count).collect();
    order.splice(to..to, moved);
    permute(x, order)
}

fn check_integers(positions: &Tensor) -> Result<()> {
    check_index(&positions.ty()).map_err(|it| {
        let it = named("index", &[positions], it);
        if positions.dtype() == DType::Bool { it.help("a mask selects with `masked_select`, or `select`") } else { it }
    })
}
