//! Defines iteration domains: the axes that the members of a fusion group share.
//!
//! Members may have different shapes as long as they iterate over the same elements in the same order. The domain is
//! the coarsest shape that refines all of theirs, with axes of size one dropped. `[6, 4]` and `[2, 3, 4]` share the
//! domain `[2, 3, 4]`.

use crate::lower::fusion::nest::{Axis, kept_strides, reduction_lanes};
use ms_ir::LaneAxis;
use ms_ir::data::{Layout, Shape, Strides};
use smallvec::SmallVec;

/// The [`run_multiple`](ms_ir::run_multiple) of any reduction divides this.
pub(in crate::lower) const MAX_ACCUMULATORS: usize = 16;

/// The axes of a domain that a member iterates over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lower) enum AxisSet {
    /// All axes.
    All,
    /// The axes that are not reduced.
    NotReduced,
}

/// The axes of a fusion group, none of which has size one or is empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::lower) struct Domain {
    axes: SmallVec<[Axis; 4]>,
}

/// Sizes that refine two shapes of equal extent, each with its axis in both.
type Factors = Vec<(usize, usize, usize)>;

/// The coarsest common refinement of two shapes.
fn factors(a: &[usize], b: &[usize]) -> Option<Factors> {
    let mut out = Factors::new();
    let (mut i, mut j) = (a.len(), b.len());
    let (mut x, mut y) = (1, 1);
    loop {
        while x == 1 && i > 0 {
            i -= 1;
            x = a[i];
        }
        while y == 1 && j > 0 {
            j -= 1;
            y = b[j];
        }
        if x == 1 && y == 1 {
            out.reverse();
            return Some(out);
        }
        let size = x.min(y);
        if size <= 1 || x % size != 0 || y % size != 0 {
            return None;
        }
        out.push((size, i, j));
        (x, y) = (x / size, y / size);
    }
}

impl Domain {
    /// The domain of a shape without empty axes.
    pub fn of(shape: &[usize]) -> Self {
        let axes = shape.iter().filter(|&&size| size != 1).map(|&size| Axis { size, reduced: false });
        Self { axes: axes.collect() }
    }

    /// The domain of a single reduction; it may have axes of size one and empty axes.
    pub fn of_reduction(shape: &[usize], reduced: &[usize]) -> Self {
        let axes = shape.iter().enumerate().map(|(axis, &size)| Axis { size, reduced: reduced.contains(&axis) });
        Self { axes: axes.collect() }
    }

    /// The axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns whether the group reduces an axis.
    pub fn is_reduced(&self) -> bool {
        self.axes.iter().any(|it| it.reduced)
    }

    /// Returns the number of elements of a part.
    pub fn numel(&self, part: AxisSet) -> usize {
        self.sizes_of(part).product()
    }

    /// Returns the part that a value with `numel` elements is computed over.
    pub fn part(&self, numel: usize) -> Option<AxisSet> {
        [AxisSet::All, AxisSet::NotReduced].into_iter().find(|&part| self.numel(part) == numel)
    }

    /// Returns whether the group reduces rows that are too short to be the lanes. Values over all axes then have no
    /// unit stride along the lanes and cannot be stored.
    pub fn has_short_rows(&self) -> bool {
        self.axes.last().is_some_and(|it| it.reduced) && reduction_lanes(&self.axes) == LaneAxis::Parallel
    }

    fn sizes(&self, part: AxisSet) -> Shape {
        self.sizes_of(part).collect()
    }

    fn sizes_of(&self, part: AxisSet) -> impl Iterator<Item = usize> + '_ {
        self.axes.iter().filter(move |it| part == AxisSet::All || !it.reduced).map(|it| it.size)
    }

    /// Returns the domain with its axes split as `shape` requires.
    pub fn refine(&self, part: AxisSet, shape: &[usize]) -> Option<Self> {
        if self.sizes_of(part).eq(shape.iter().copied().filter(|&it| it != 1)) {
            return Some(self.clone());
        }
        let splits = factors(&self.sizes(part), shape)?;
        let mut axes = SmallVec::new();
        let mut at = 0;
        for axis in &self.axes {
            if part == AxisSet::NotReduced && axis.reduced {
                axes.push(*axis);
                continue;
            }
            axes.extend(splits.iter().filter(|it| it.1 == at).map(|it| Axis { size: it.0, ..*axis }));
            at += 1;
        }
        Some(Self { axes })
    }

    /// Returns the domain of a group that this one joins to reduce the axes `reduced` of `shape`.
    pub fn reduce(&self, shape: &[usize], reduced: &[usize]) -> Option<Self> {
        let fixed = self.is_reduced();
        let splits = factors(&self.sizes(AxisSet::All), shape)?;
        if fixed && splits.iter().any(|&(_, own, axis)| self.axes[own].reduced != reduced.contains(&axis)) {
            return None;
        }
        let axes = splits.iter().map(|&(size, _, axis)| Axis { size, reduced: reduced.contains(&axis) });
        Some(Self { axes: axes.collect() })
    }

    /// Returns the domain of two merged groups.
    pub fn unify(&self, other: &Self) -> Option<Self> {
        match (self.is_reduced(), other.is_reduced()) {
            (true, true) => {
                let sizes = other.sizes(AxisSet::All);
                let reduced: SmallVec<[usize; 4]> = (0..sizes.len()).filter(|&it| other.axes[it].reduced).collect();
                self.reduce(&sizes, &reduced)
            }
            (false, true) => other.unify(self),
            (_, false) => {
                let part = self.part(other.numel(AxisSet::All))?;
                self.refine(part, &other.sizes(AxisSet::All))
            }
        }
    }

    /// Returns the strides of a view of a part's shape along all axes, in elements.
    pub fn walk(&self, part: AxisSet, layout: &Layout) -> Option<Strides> {
        // Axes of size one, which only single reductions have, are supported only here.
        if self.sizes_of(AxisSet::All).eq(layout.shape().iter().copied()) {
            return Some(layout.strides().into());
        }
        let view = layout.reshape(&self.sizes(part))?;
        if part == AxisSet::All {
            return Some(view.strides().into());
        }
        let mut strides = view.strides().iter();
        let stride = |axis: &Axis| if axis.reduced { Some(0) } else { strides.next().copied() };
        self.axes.iter().map(stride).collect()
    }

    /// Returns the strides of a row-major value of a part's shape.
    pub fn dense(&self, part: AxisSet) -> Strides {
        match part {
            AxisSet::All => Layout::contiguous(&self.sizes(AxisSet::All)).strides().into(),
            AxisSet::NotReduced => kept_strides(&self.axes),
        }
    }

    /// Returns whether an operand stays within one row at each step of the first `rows` axes. The operand begins at
    /// `first`; the row has `row` elements and belongs to a row-major value with these axes.
    pub fn stays_in_rows(&self, rows: usize, row: usize, first: usize, strides: &[isize]) -> bool {
        let mut step = row as isize;
        for (axis, &stride) in self.axes[..rows].iter().zip(strides).rev() {
            if stride != step {
                return false;
            }
            step *= axis.size as isize;
        }
        let (mut low, mut high) = (first as isize, first as isize);
        for (axis, &stride) in self.axes.iter().zip(strides).skip(rows) {
            let reach = (axis.size as isize - 1) * stride;
            (low, high) = (low + reach.min(0), high + reach.max(0));
        }
        low >= 0 && high < row as isize
    }

    /// Returns whether reduced lanes can read an operand with these strides. The last axes must be one run, or be split
    /// so that `multiple` divides the inner part.
    pub fn run_fits(&self, strides: &[isize], multiple: usize) -> bool {
        if reduction_lanes(&self.axes) == LaneAxis::Parallel {
            return true;
        }
        let (mut inner, mut next) = (1usize, None);
        for (axis, &stride) in self.axes.iter().zip(strides).rev().filter(|it| it.0.size != 1) {
            if !axis.reduced {
                break;
            }
            if next.is_some_and(|it| it != stride) && !inner.is_multiple_of(multiple) {
                return false;
            }
            inner *= axis.size;
            next = Some(stride * axis.size as isize);
        }
        true
    }

    /// Returns how many adjacent elements a kernel over this domain writes at a time to a result with these strides. If
    /// the result has one element for all lanes, that is all of its elements. Returns `None` if the lanes are not
    /// adjacent.
    pub fn run(&self, part: AxisSet, strides: &[isize]) -> Option<usize> {
        let lanes = reduction_lanes(&self.axes);
        if part == AxisSet::NotReduced && lanes == LaneAxis::Reduced {
            return Some(self.numel(AxisSet::NotReduced));
        }
        if part == AxisSet::All && !self.run_fits(strides, MAX_ACCUMULATORS) {
            return None;
        }
        let axes = self.axes.iter().zip(strides).rev();
        let mut axes = axes.filter(|it| it.0.size != 1 && it.0.reduced == (lanes == LaneAxis::Reduced)).peekable();
        if axes.peek().is_some_and(|it| *it.1 != 1) {
            return None;
        }
        let run = |run: usize, (axis, &stride): (&Axis, &isize)| (stride == run as isize).then_some(run * axis.size);
        Some(
            axes.scan(1, |all, it| {
                *all = run(*all, it)?;
                Some(*all)
            })
            .last()
            .unwrap_or(1),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(domain: Option<Domain>) -> Option<Vec<usize>> {
        domain.map(|it| it.axes.iter().map(|it| it.size).collect())
    }

    #[test]
    fn refinement() {
        type Sizes = &'static [usize];
        let cases: [(Sizes, Sizes, Option<Sizes>); 7] = [
            (&[6, 4], &[2, 3, 4], Some(&[2, 3, 4])),
            (&[24], &[1, 6, 1, 4], Some(&[6, 4])),
            (&[2, 12], &[2, 3, 4], Some(&[2, 3, 4])),
            (&[2, 6], &[4, 3], Some(&[2, 2, 3])),
            (&[6, 4], &[4, 6], None),
            (&[4], &[3], None),
            (&[1], &[], Some(&[])),
        ];
        for (a, b, expected) in cases {
            let refined = sizes(Domain::of(a).refine(AxisSet::All, b));
            assert_eq!(refined.as_deref(), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn parts_of_a_reduced_domain() {
        let rows = Domain::of(&[6, 4]).reduce(&[6, 4], &[1]).expect("the shape is the domain's");
        assert_eq!((rows.numel(AxisSet::All), rows.numel(AxisSet::NotReduced)), (24, 6));
        assert_eq!(&*rows.dense(AxisSet::All), &[4, 1]);
        assert_eq!(&*rows.dense(AxisSet::NotReduced), &[1, 0]);
        let finer = rows.refine(AxisSet::NotReduced, &[2, 3]).expect("six is two by three");
        assert_eq!(&*finer.dense(AxisSet::All), &[12, 4, 1]);
        let column = Layout::contiguous(&[2, 3, 1]).broadcast_to(&[2, 3, 4]).expect("ones repeat");
        assert_eq!(finer.walk(AxisSet::All, &column), Some(finer.dense(AxisSet::NotReduced)));
        assert!(rows.has_short_rows());
        assert_eq!(sizes(rows.unify(&Domain::of(&[3, 2]))), Some(vec![3, 2, 4]));
        assert_eq!(sizes(rows.unify(&Domain::of(&[6, 2, 2]))), Some(vec![6, 2, 2]));
        assert_eq!(rows.reduce(&[6, 4], &[0]), None);
    }
}
