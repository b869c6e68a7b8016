//! Builds loop nests over concrete layouts: the loops of a kernel and the strides of its operands.
//!
//! Axes of size one are dropped, and adjacent axes that are contiguous for every operand are merged into one
//! loop. The remaining axes are the loops of a [`Kernel`](ms_ir::Kernel).
//!
//! **Form of reductions.** The bits of a float sum depend on the order of its terms. So this order must not depend on
//! layouts or fusion, and follows from the logical axes alone ([`reduction_lanes`]). When the last axes are reduced and
//! have [`ROW`] elements or more together, those axes, flattened, are the lanes.
//!
//! If layouts prevent merging such a run into one loop, its outer part may become `seq` loops. This requires that the
//! inner part is a [multiple](run_multiple) of the accumulators in one vector, which does not change the order.
//! Otherwise there is no nest, and an operand must be copied first.

use ms_ir::data::{DType, Layout, Strides};
use ms_ir::{LaneAxis, ReductionOrder, StrideClass, run_multiple};
use smallvec::SmallVec;

/// The minimum number of reduced elements in the last axes that makes these the lanes. It is half a register, so that
/// the ten classes of a softmax fit in one.
pub const ROW: usize = 8;

/// An axis of an iteration space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    /// The extent.
    pub size: usize,
    /// Whether the kernel reduces it.
    pub reduced: bool,
}

/// The traversal of an operand: its element type and its stride along each axis of the iteration space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walk {
    /// The element type.
    pub dtype: DType,
    /// Strides in elements, one for each axis.
    pub strides: SmallVec<[isize; 4]>,
}

/// Loops with the strides of all operands: the argument block of a call without addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nest {
    /// The axis of the lanes.
    pub lanes: LaneAxis,
    /// The number of parallel loops outside the lanes.
    pub par: u8,
    /// The number of reduced loops other than the lanes.
    pub seq: u8,
    /// The number of innermost reduced loops that iterate over one row together with the lanes.
    pub run: u8,
    /// Extents: parallel loops, lanes, reduced loops.
    pub extents: SmallVec<[usize; 4]>,
    /// Strides in bytes: for each loop, one per operand.
    strides: SmallVec<[i64; 16]>,
    operands: usize,
}

/// Returns the axis of the lanes of a reduction over `axes`.
pub fn reduction_lanes(axes: &[Axis]) -> LaneAxis {
    let run = axes.iter().rev().filter(|it| it.size != 1).take_while(|it| it.reduced);
    if run.map(|it| it.size).reduce(|a, b| a * b).is_some_and(|it| it >= ROW) {
        LaneAxis::Reduced
    } else {
        LaneAxis::Parallel
    }
}

/// Loops under construction, outermost first.
struct Loops {
    operands: usize,
    extents: SmallVec<[usize; 4]>,
    strides: SmallVec<[i64; 16]>,
}

impl Loops {
    fn new(operands: usize) -> Self {
        Self { operands, extents: SmallVec::new(), strides: SmallVec::new() }
    }

    /// Returns whether a loop of `size` inside the last one can be merged with it for all operands.
    #[inline]
    fn continues(&self, size: usize, stride: &impl Fn(usize) -> i64) -> bool {
        let Some(start) = self.strides.len().checked_sub(self.operands) else { return false };
        !self.extents.is_empty() && (0..self.operands).all(|op| self.strides[start + op] == stride(op) * size as i64)
    }

    /// Adds an innermost loop, or merges it with the last one.
    #[inline]
    fn push(&mut self, size: usize, merge: bool, stride: impl Fn(usize) -> i64) {
        if merge && self.continues(size, &stride) {
            let start = self.strides.len() - self.operands;
            for op in 0..self.operands {
                self.strides[start + op] = stride(op);
            }
            *self.extents.last_mut().expect("a loop that can be continued is there") *= size;
        } else {
            self.extents.push(size);
            self.strides.extend((0..self.operands).map(stride));
        }
    }
}

impl Nest {
    /// Builds the nest of an elementwise kernel of `shape`. The layouts must be broadcast to it.
    #[inline]
    pub fn elementwise(shape: &[usize], operands: &[(&Layout, DType)]) -> Self {
        let mut loops = Loops::new(operands.len());
        for (axis, &size) in shape.iter().enumerate() {
            if size != 1 {
                loops.push(size, true, |op| {
                    let (layout, dtype) = operands[op];
                    match (axis + layout.rank()).checked_sub(shape.len()) {
                        Some(axis) if layout.shape()[axis] != 1 => layout.strides()[axis] as i64 * dtype.size() as i64,
                        _ => 0,
                    }
                });
            }
        }
        if loops.extents.is_empty() {
            loops.push(1, false, |op| operands[op].1.size() as i64);
        }
        Self {
            lanes: LaneAxis::Parallel,
            par: loops.extents.len() as u8 - 1,
            seq: 0,
            run: 0,
            extents: loops.extents,
            strides: loops.strides,
            operands: operands.len(),
        }
        .zero_empty_loops()
    }

    /// Builds the nest of a reduction of all elements of `shape` by an exact function, whose order of terms changes no
    /// bit. The layouts must be broadcast to the shape. The last operand is the result, one element.
    pub fn exact_reduction(shape: &[usize], operands: &[(&Layout, DType)]) -> Self {
        let mut nest = Self::elementwise(shape, operands);
        nest.strides.iter_mut().skip(nest.operands - 1).step_by(nest.operands).for_each(|it| *it = 0);
        // The lanes come first, and then the reduced loops.
        nest.extents.rotate_right(1);
        nest.strides.rotate_right(nest.operands);
        Self { lanes: LaneAxis::Reduced, par: 0, seq: nest.par, ..nest }
    }

    /// Sets all extents of loops without elements to zero, so that the loops around them do not iterate.
    #[inline]
    fn zero_empty_loops(mut self) -> Self {
        let parallel = self.par as usize + (self.lanes == LaneAxis::Parallel) as usize;
        let (parallel, reduced) = self.extents.split_at_mut(parallel);
        for loops in [parallel, reduced] {
            if loops.contains(&0) {
                loops.fill(0);
            }
        }
        self
    }

    /// Builds the nest of an iteration space whose operands are traversed as in `walks`. Loops are not merged across
    /// `fences`, the first axes of the ranges that must stay separate.
    ///
    /// `reduced` is the dtype of the reduction, if there is one. Returns `None` if reduced lanes cannot preserve the
    /// order ([module](self)).
    pub fn new(axes: &[Axis], walks: &[Walk], fences: &[usize], reduced: Option<DType>) -> Option<Self> {
        let operands = walks.len();
        let stride = |axis: usize| move |op: usize| walks[op].strides[axis] as i64 * walks[op].dtype.size() as i64;
        let lanes = if reduced.is_some() { reduction_lanes(axes) } else { LaneAxis::Parallel };
        let run = match lanes {
            LaneAxis::Parallel => axes.len(),
            LaneAxis::Reduced => axes.iter().rposition(|it| it.size != 1 && !it.reduced).map_or(0, |it| it + 1),
        };
        let (mut par, mut seq) = (Loops::new(operands), Loops::new(operands));
        let (mut par_axis, mut seq_axis) = (None, None);
        // Reduced loops outside the run.
        let mut outside = 0;
        for (axis, it) in axes.iter().enumerate().filter(|(_, it)| it.size != 1) {
            let (loops, last) = if it.reduced { (&mut seq, &mut seq_axis) } else { (&mut par, &mut par_axis) };
            // The run at the end is always a separate loop, because the lanes define its order.
            let mut fences = fences.iter().chain([&run]);
            let fenced = fences.any(|fence| last.is_some_and(|last| last < *fence) && *fence <= axis);
            loops.push(it.size, !fenced, stride(axis));
            *last = Some(axis);
            if axis < run {
                outside = seq.extents.len();
            }
        }
        let (lane_extent, lane_strides) = match lanes {
            LaneAxis::Parallel => match par.extents.pop() {
                Some(extent) => (extent, par.strides.drain(par.strides.len() - operands..).collect()),
                None => (1, walks.iter().map(|it| it.dtype.size() as i64).collect()),
            },
            LaneAxis::Reduced => {
                let extent = seq.extents.pop()?;
                let total: usize = axes[run..].iter().map(|it| it.size).product();
                // Empty reductions have no order.
                if total != 0 && extent != total && !extent.is_multiple_of(run_multiple(reduced?)) {
                    return None;
                }
                (extent, seq.strides.drain(seq.strides.len() - operands..).collect::<SmallVec<[i64; 16]>>())
            }
        };
        if reduced.is_some() && lanes == LaneAxis::Parallel && seq.extents.is_empty() {
            seq.push(1, false, |_| 0);
        }
        let counts = (par.extents.len() as u8, seq.extents.len() as u8);
        let run = if lanes == LaneAxis::Reduced { counts.1 - outside as u8 } else { 0 };
        let (mut extents, mut strides) = (par.extents, par.strides);
        extents.push(lane_extent);
        extents.extend(seq.extents);
        strides.extend(lane_strides);
        strides.extend(seq.strides);
        Some(Self { lanes, par: counts.0, seq: counts.1, run, extents, strides, operands }.zero_empty_loops())
    }

    /// Returns the length of the accumulation chains of a reduction in [`ReductionOrder::Lanes`], given the accumulator
    /// dtype. Returns zero without reduced loops.
    pub fn chain(&self, accumulator: DType) -> usize {
        let lanes = match self.lanes {
            LaneAxis::Parallel => 1,
            LaneAxis::Reduced => {
                self.extents[self.par as usize].div_ceil(ReductionOrder::Lanes.accumulators(accumulator))
            }
        };
        let loops = &self.extents[self.par as usize + 1..];
        loops.iter().fold(lanes, |all, &it| all.saturating_mul(it))
    }

    /// Returns the byte strides of an operand, in the order of the extents.
    pub fn strides(&self, operand: usize) -> impl ExactSizeIterator<Item = i64> + '_ {
        debug_assert!(operand < self.operands);
        (0..self.extents.len()).map(move |i| self.strides[i * self.operands + operand])
    }

    /// Returns the class of an operand's stride along the lanes; `dtype` is its element type.
    #[inline]
    pub fn step(&self, operand: usize, dtype: DType) -> StrideClass {
        let lane = self.par as usize;
        let stride = self.strides[lane * self.operands + operand];
        if self.extents[lane] == 1 || stride == dtype.size() as i64 {
            StrideClass::Unit
        } else if stride == 0 {
            StrideClass::Zero
        } else {
            StrideClass::Any
        }
    }

    /// Returns whether there are no elements to write.
    pub fn is_empty(&self) -> bool {
        let lane = if self.lanes == LaneAxis::Parallel { 1 } else { 0 };
        self.extents[..self.par as usize + lane].contains(&0)
    }

    /// Returns the argument block of a call (see [`ms_ir::Kernel`]) on operands that start at `addresses`, without
    /// bases.
    #[inline]
    pub fn argument_block(&self, addresses: impl IntoIterator<Item = u64>) -> SmallVec<[u64; 24]> {
        let mut block = SmallVec::new();
        block.extend(self.extents.iter().map(|&it| it as u64));
        for (operand, address) in addresses.into_iter().enumerate() {
            block.push(address);
            block.extend(self.strides(operand).map(|it| it as u64));
        }
        block
    }
}

/// Returns the strides of a row-major result over the axes that are not reduced; the strides of reduced axes are zero.
pub fn kept_strides(axes: &[Axis]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(0, axes.len());
    let mut step = 1;
    for (axis, it) in axes.iter().enumerate().rev().filter(|(_, it)| !it.reduced) {
        strides[axis] = step;
        step *= it.size.max(1) as isize;
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::data::Shape;

    /// A small deterministic generator.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % n
        }
    }

    /// A random view of rank `shape.len()` that broadcasts to `shape`.
    fn random_view(random: &mut Random, shape: &[usize]) -> Layout {
        let skip = random.below(shape.len() + 1).min(random.below(3));
        let own: Shape = shape[skip..].iter().map(|&size| if random.below(4) == 0 { 1 } else { size }).collect();
        let mut order: Vec<usize> = (0..own.len()).collect();
        if random.below(2) == 0 {
            (0..own.len()).for_each(|i| order.swap(i, random.below(i + 1)));
        }
        let padded: Shape = order.iter().map(|&axis| own[axis] + random.below(3) / 2).collect();
        let mut inverse = vec![0; own.len()];
        order.iter().enumerate().for_each(|(i, &axis)| inverse[axis] = i);
        let mut view = Layout::contiguous(&padded).permute(&inverse);
        for (axis, &size) in own.iter().enumerate() {
            view = view.slice(axis, view.shape()[axis] - size, size, 1);
            if random.below(4) == 0 && size > 0 {
                view = view.slice(axis, size - 1, size, -1);
            }
        }
        view
    }

    /// Returns all addresses at which an operand is accessed, loop by loop.
    fn visits(nest: &Nest, operand: usize, start: i64) -> Vec<i64> {
        let strides: Vec<i64> = nest.strides(operand).collect();
        // Reduced lanes are the innermost loop.
        let mut order: Vec<usize> = (0..nest.extents.len()).collect();
        if nest.lanes == LaneAxis::Reduced {
            let lane = order.remove(nest.par as usize);
            order.push(lane);
        }
        let mut places = vec![start];
        for i in order {
            let (extent, stride) = (nest.extents[i] as i64, strides[i]);
            places = places.into_iter().flat_map(|it| (0..extent).map(move |k| it + k * stride)).collect();
        }
        places
    }

    #[test]
    fn elementwise_nests_visit_what_layouts_name() {
        let mut random = Random(7);
        for _ in 0..2000 {
            let shape: Shape = (0..random.below(5)).map(|_| random.below(5)).collect();
            let views: Vec<Layout> = (0..1 + random.below(3)).map(|_| random_view(&mut random, &shape)).collect();
            let operands: Vec<_> = views.iter().map(|it| (it, DType::I16)).collect();
            let nest = Nest::elementwise(&shape, &operands);
            for (i, view) in views.iter().enumerate() {
                let full = view.broadcast_to(&shape).expect("the view was made to broadcast");
                let expected: Vec<i64> = full.offsets().map(|it| 2 * it as i64).collect();
                assert_eq!(visits(&nest, i, 2 * view.offset() as i64), expected, "{shape:?} {views:?} {nest:?}");
            }
        }
    }

    #[test]
    fn reductions_visit_rows_in_order() {
        let mut random = Random(11);
        let mut refused = 0;
        for _ in 0..2000 {
            let axes: Vec<Axis> = (0..random.below(5))
                .map(|_| Axis { size: [1, 2, 3, 5, 8, 16][random.below(6)], reduced: random.below(2) == 0 })
                .collect();
            let shape: Shape = axes.iter().map(|it| it.size).collect();
            let view = random_view(&mut random, &shape).broadcast_to(&shape).expect("the view was made to broadcast");
            let walks = [Walk { dtype: DType::F32, strides: view.strides().into() }];
            let Some(nest) = Nest::new(&axes, &walks, &[], Some(DType::F32)) else {
                refused += 1;
                continue;
            };
            // Row by row: the axes that are not reduced outside, the reduced ones inside, each in order.
            let kept = (0..axes.len()).filter(|&it| !axes[it].reduced);
            let order: Vec<usize> = kept.chain((0..axes.len()).filter(|&it| axes[it].reduced)).collect();
            let expected: Vec<i64> = view.permute(&order).offsets().map(|it| 4 * it as i64).collect();
            assert_eq!(visits(&nest, 0, 4 * view.offset() as i64), expected, "{axes:?} {nest:?}");
        }
        assert!(refused < 400, "{refused} of 2000 were refused");
    }

    #[test]
    fn loops_and_steps() {
        let cases: &[(&[usize], Layout, &[usize], StrideClass)] = &[
            (&[], Layout::contiguous(&[]), &[1], StrideClass::Unit),
            (&[1, 1], Layout::contiguous(&[1]), &[1], StrideClass::Unit),
            (&[4, 5, 6], Layout::contiguous(&[4, 5, 6]), &[120], StrideClass::Unit),
            (&[4, 6], Layout::contiguous(&[6]), &[4, 6], StrideClass::Unit),
            (&[4, 6], Layout::contiguous(&[4, 1]), &[4, 6], StrideClass::Zero),
            (&[4, 6], Layout::contiguous(&[]), &[24], StrideClass::Zero),
            (&[4, 6], Layout::contiguous(&[6, 4]).permute(&[1, 0]), &[4, 6], StrideClass::Any),
        ];
        for (shape, layout, extents, step) in cases {
            let out = Layout::contiguous(shape);
            let nest = Nest::elementwise(shape, &[(layout, DType::F32), (&out, DType::F32)]);
            assert_eq!((&*nest.extents, nest.step(0, DType::F32)), (*extents, *step), "{shape:?} {layout:?}");
            assert_eq!(nest.step(1, DType::F32), StrideClass::Unit);
        }
    }

    #[test]
    fn the_form_of_a_reduction_follows_from_its_axes() {
        let lanes = |sizes: &[(usize, bool)]| {
            reduction_lanes(&sizes.iter().map(|&(size, reduced)| Axis { size, reduced }).collect::<Vec<_>>())
        };
        assert_eq!(lanes(&[(64, false), (10, true)]), LaneAxis::Reduced);
        assert_eq!(lanes(&[(64, false), (7, true)]), LaneAxis::Parallel);
        assert_eq!(lanes(&[(64, false), (2, true), (1, false), (4, true)]), LaneAxis::Reduced);
        assert_eq!(lanes(&[(64, true), (10, false)]), LaneAxis::Parallel);
        assert_eq!(lanes(&[(64, true), (1, false)]), LaneAxis::Reduced);
    }
}
