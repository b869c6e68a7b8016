//! Partial gradients of operands from which an op reads only some elements.

use crate::ops::{
    ADD_SLICES, AxisAttrs, INDEX_ADD, SCATTER_ADD, SCATTER_ND_ADD, StridedSliceAttrs, cast, concat, full_of, reshape,
};
use crate::tensor::{Attr, Attrs, DType, Dim, Dims, Tensor, Type, apply1};
use smallvec::SmallVec;

/// A gradient that is zero except at some positions: the result of [`Derivative::Read`](crate::ops::Derivative::Read).
/// Parts of one gradient accumulate in one tensor, so a hundred slices of a tensor cost no more than the tensor.
#[derive(Clone)]
pub struct PartialGradient {
    /// The type of the whole gradient.
    whole: Type,
    indices: Indices,
    value: Tensor,
}

/// The positions of a part's elements.
#[derive(Clone)]
enum Indices {
    /// A strided slice from `starts` on, with these `steps`.
    Slice { starts: Dims, steps: SmallVec<[i64; 4]> },
    /// Slices at positions `[n]` along an axis.
    Rows { axis: usize, index: Tensor },
    /// Single elements at positions along an axis.
    Elements { axis: usize, index: Tensor },
    /// Slices at positions along several leading axes, one for each row of the index.
    Points { index: Tensor },
}

impl PartialGradient {
    /// Creates the part of `x` that [`SLICE`](crate::ops::SLICE) reads.
    pub(in crate::ops) fn slice(x: &Tensor, starts: &[Dim], steps: &[i64], value: &Tensor) -> Self {
        Self::new(x, Indices::Slice { starts: starts.into(), steps: steps.into() }, value)
    }

    /// Creates the part of the slices of `x` at the positions `index` `[n]` along an axis.
    pub(in crate::ops) fn rows(x: &Tensor, axis: usize, index: Tensor, value: &Tensor) -> Self {
        Self::new(x, Indices::Rows { axis, index }, value)
    }

    /// Creates the part of `x` that [`TAKE_ALONG_AXIS`](crate::ops::TAKE_ALONG_AXIS) reads.
    pub(in crate::ops) fn elements(x: &Tensor, axis: usize, index: &Tensor, value: &Tensor) -> Self {
        Self::new(x, Indices::Elements { axis, index: index.clone() }, value)
    }

    /// Creates the part of `x` that [`GATHER_ND`](crate::ops::GATHER_ND) reads.
    pub(in crate::ops) fn points(x: &Tensor, index: &Tensor, value: &Tensor) -> Self {
        Self::new(x, Indices::Points { index: index.clone() }, value)
    }

    fn new(x: &Tensor, indices: Indices, value: &Tensor) -> Self {
        Self { whole: x.ty(), indices, value: value.clone() }
    }

    /// Returns the numbers of elements of the part and of the whole gradient; `None` if sizes are symbolic.
    pub fn sizes(&self) -> Option<(usize, usize)> {
        Some((self.value.ty().numel()?, self.whole.numel()?))
    }

    /// Sums `base` and the parts of one gradient, in this order.
    ///
    /// # Panics
    /// If there are no parts.
    #[track_caller]
    pub fn sum(base: Option<Tensor>, parts: &[Self]) -> Tensor {
        let whole = &parts.first().expect("a sum of parts has one").whole;
        if base.is_none()
            && let Some(tiled) = tiled(parts)
        {
            return tiled;
        }
        let base = base.unwrap_or_else(|| full_of(whole.dims.clone(), 0, whole.dtype));
        parts.chunk_by(Self::joins).fold(base, |base, parts| add(&base, parts))
    }

    /// Whether one op can add both parts.
    fn joins(&self, other: &Self) -> bool {
        match (&self.indices, &other.indices) {
            (Indices::Slice { .. }, Indices::Slice { .. }) => true,
            (Indices::Rows { axis, .. }, Indices::Rows { axis: with, .. }) => axis == with,
            (Indices::Elements { axis, .. }, Indices::Elements { axis: with, .. }) => {
                let (own, others) = (self.value.dims(), other.value.dims());
                axis == with && (0..own.len()).all(|it| it == *axis || own[it] == others[it])
            }
            (Indices::Points { index }, Indices::Points { index: with }) => index.dims().last() == with.dims().last(),
            _ => false,
        }
    }
}

/// Adds parts that [join](Part::joins) to `base`.
#[track_caller]
fn add(base: &Tensor, parts: &[PartialGradient]) -> Tensor {
    let first = &parts[0];
    let (op, axis) = match first.indices {
        Indices::Slice { .. } => return add_slices(base, parts),
        Indices::Rows { axis, .. } => (INDEX_ADD.op(), Some(axis)),
        Indices::Elements { axis, .. } => (SCATTER_ADD.op(), Some(axis)),
        Indices::Points { .. } => (SCATTER_ND_ADD.op(), None),
    };
    let attrs = axis.map_or_else(Attrs::none, AxisAttrs::attrs);
    if let [one] = parts {
        return apply1(op, &attrs, &[base, one.index(), &one.value]);
    }
    // Points may have several leading axes, which are merged.
    let is_points = matches!(first.indices, Indices::Points { .. });
    let flat = |x: &Tensor, inner: usize| {
        let dims = x.dims();
        let (front, inner) = dims.split_at(dims.len() - inner);
        let count: Dim = front.iter().copied().product();
        if is_points {
            reshape(x, std::iter::once(count).chain(inner.iter().copied()).collect::<Dims>())
        } else {
            x.clone()
        }
    };
    let inner = first.value.rank() + 1 - first.index().rank();
    let dtype = first.index().dtype();
    let dtype = if parts.iter().all(|it| it.index().dtype() == dtype) { dtype } else { DType::I64 };
    let index_axis = if matches!(first.indices, Indices::Elements { .. }) { axis } else { None };
    let index: Vec<Tensor> = parts.iter().map(|it| cast(flat(it.index(), 1), dtype)).collect();
    let value: Vec<Tensor> = parts.iter().map(|it| flat(&it.value, inner)).collect();
    let joined = |list: &[Tensor], axis: Option<usize>| concat(list, axis.unwrap_or(0) as isize);
    apply1(op, &attrs, &[base, &joined(&index, index_axis), &joined(&value, axis)])
}

impl PartialGradient {
    fn index(&self) -> &Tensor {
        match &self.indices {
            Indices::Rows { index, .. } | Indices::Elements { index, .. } | Indices::Points { index } => index,
            Indices::Slice { .. } => unreachable!("slices have no index"),
        }
    }

    fn ranges(&self) -> Option<(&[Dim], &[i64])> {
        match &self.indices {
            Indices::Slice { starts, steps } => Some((starts, steps)),
            _ => None,
        }
    }
}

#[track_caller]
fn add_slices(base: &Tensor, parts: &[PartialGradient]) -> Tensor {
    let ranges = || parts.iter().filter_map(PartialGradient::ranges);
    let starts: Dims = ranges().flat_map(|it| it.0).copied().collect();
    let steps = Attr::Ints(ranges().flat_map(|it| it.1).copied().collect());
    let operands: Vec<&Tensor> = std::iter::once(base).chain(parts.iter().map(|it| &it.value)).collect();
    apply1(ADD_SLICES.op(), &StridedSliceAttrs::attrs(&*starts, steps), &operands)
}

/// Returns the gradient as the concatenation of its slices, if they tile one axis without gaps or overlaps.
#[track_caller]
fn tiled(parts: &[PartialGradient]) -> Option<Tensor> {
    let whole = &parts[0].whole;
    let shape = whole.shape()?;
    let mut tiles = Vec::with_capacity(parts.len());
    let mut axis = None;
    for part in parts {
        let (starts, steps) = part.ranges()?;
        let sizes = part.value.ty().shape()?;
        for at in 0..shape.len() {
            if steps[at] != 1 {
                return None;
            }
            if sizes[at] != shape[at] && *axis.get_or_insert(at) != at {
                return None;
            }
        }
        tiles.push((starts, sizes, &part.value));
    }
    let axis = axis?;
    tiles.sort_by_key(|it| it.0[axis]);
    let mut end = 0;
    for (starts, sizes, _) in &tiles {
        if starts[axis] != Dim::new(end) {
            return None;
        }
        end += sizes[axis];
    }
    (end == shape[axis]).then(|| concat(&tiles.iter().map(|it| it.2).collect::<Vec<_>>(), axis as isize))
}
