//! Defines contractions, the single description of sums of products.

use super::Precision;
use crate::MapVec;
use crate::data::{DType, Layout};
use crate::error::{Code, Error, Result};
use smallvec::SmallVec;
use std::fmt::{self, Display, Formatter};

/// A generalised matrix product `out[b, m, n] = Σₖ a[b, m, k] b[b, k, n]`, where each of the four letters stands for
/// any number of axes. A matrix product has one `m`, one `n` and one `k`, and a batched one also has a `b`.
///
/// A contraction has element types, sizes and strides, and no addresses. Elements of the operands are converted exactly
/// to the accumulator type as they are read. Sums are rounded, or wrapped, once, to the type of the result. In
/// [strict](Precision::Strict) precision, float terms are added in row-major order of the `k` axes.
///
/// ```
/// use ms_core::ir::{Contraction, ContractionTypes, Precision};
/// use ms_core::tensor::{DType, Layout};
/// let [a, b, out] = [[2, 5], [5, 3], [2, 3]].map(|it| Layout::contiguous(&it));
/// let types = ContractionTypes::of(DType::BF16);
/// let it = Contraction::of_matrices(types, Precision::Strict, &a, &b, &out)?;
/// assert_eq!(it.to_string(), "bf16 bf16 -> f32 -> bf16 strict, m 2 (5, 3), n 3 (1, 1), k 5 (1, 3)");
/// # Ok::<(), ms_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contraction {
    /// Element types.
    pub types: ContractionTypes,
    /// The precision: determines the order in which float terms are added, and how they may be multiplied.
    pub precision: Precision,
    /// Axes of both operands and of the result.
    pub batch: ContractionAxes,
    /// Axes of `a` and of the result.
    pub m: ContractionAxes,
    /// Axes of `b` and of the result.
    pub n: ContractionAxes,
    /// Reduction dimensions: axes of both operands that are summed over.
    pub k: ContractionAxes,
}

/// The axes of a contraction of one kind, outermost first; none has size one.
pub type ContractionAxes = SmallVec<[ContractionAxis; 2]>;

/// The element types of a contraction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ContractionTypes {
    /// The element type of the left operand.
    pub a: DType,
    /// The element type of the right operand.
    pub b: DType,
    /// The type of terms and sums: the [compute dtype](DType::compute) of the others.
    pub accumulator: DType,
    /// The element type of the result.
    pub out: DType,
}

/// An axis of a contraction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ContractionAxis {
    /// The size.
    pub size: usize,
    /// Strides of `a`, `b` and the result in elements; zero for a value without this axis.
    pub strides: [isize; 3],
}

impl ContractionTypes {
    /// Creates the types of a contraction with operands and result of one type.
    pub fn of(dtype: DType) -> Self {
        Self { a: dtype, b: dtype, accumulator: dtype.compute(), out: dtype }
    }

    /// Returns the types of `a`, `b` and the result.
    pub fn all(self) -> [DType; 3] {
        [self.a, self.b, self.out]
    }

    /// Returns whether operands convert to accumulators exactly, and accumulators to the result.
    pub fn is_valid(self) -> bool {
        self.all().into_iter().all(|it| it.compute() == self.accumulator)
    }
}

/// The number of axes of each kind: `a` is `[batch.., m.., k..]`, `b` is `[batch.., k.., n..]`, and the result
/// `[batch.., m.., n..]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ContractionRanks {
    /// The number of `batch` axes.
    pub batch: usize,
    /// The number of `k` axes.
    pub k: usize,
}

impl Contraction {
    /// Creates the contraction of operands of these layouts, with axes in the order of [`ContractionRanks`]. Axes of
    /// one kind that are adjacent and contiguous in all layouts that have them are merged.
    ///
    /// # Errors
    /// [`Code::Shape`] when the shapes do not fit, and [`Code::DType`] when the types do not.
    pub fn new(
        types: ContractionTypes,
        precision: Precision,
        ranks: ContractionRanks,
        [a, b, out]: [&Layout; 3],
    ) -> Result<Self> {
        if !types.is_valid() {
            let [a, b, out] = types.all();
            let message = format!("no contraction of {a} and {b} to {out} in {}", types.accumulator);
            return Err(Error::new(Code::DType, message));
        }
        let refuse = || {
            let message = format!("no contraction of {:?} and {:?} to {:?}", a.shape(), b.shape(), out.shape());
            Error::new(Code::Shape, message)
        };
        let ContractionRanks { batch, k } = ranks;
        let (rows, columns) = (a.rank().checked_sub(batch + k), b.rank().checked_sub(batch + k));
        let (rows, columns) = (rows.ok_or_else(refuse)?, columns.ok_or_else(refuse)?);
        let (m, n) = (batch + rows, batch + k + columns);
        let fits = out.rank() == m + columns
            && a.shape()[..m] == out.shape()[..m]
            && b.shape()[..batch] == out.shape()[..batch]
            && b.shape()[batch + k..] == out.shape()[m..]
            && a.shape()[m..] == b.shape()[batch..batch + k];
        if !fits {
            return Err(refuse());
        }
        let axis = |layout: &Layout, at: usize| layout.strides()[at];
        let of = |sizes: &[usize], strides: &dyn Fn(usize) -> [isize; 3]| merged(sizes, strides);
        Ok(Self {
            types,
            precision,
            batch: of(&out.shape()[..batch], &|it| [axis(a, it), axis(b, it), axis(out, it)]),
            m: of(&out.shape()[batch..m], &|it| [axis(a, batch + it), 0, axis(out, batch + it)]),
            n: of(&b.shape()[batch + k..n], &|it| [0, axis(b, batch + k + it), axis(out, m + it)]),
            k: of(&a.shape()[m..], &|it| [axis(a, m + it), axis(b, batch + it), 0]),
        })
    }

    /// Creates the product of matrices `a` `[.., m, k]` and `b` `[.., k, n]` into `out` `[.., m, n]`. The leading axes
    /// are equal.
    ///
    /// # Errors
    /// See [`Contraction::new`].
    pub fn of_matrices(
        types: ContractionTypes,
        precision: Precision,
        a: &Layout,
        b: &Layout,
        out: &Layout,
    ) -> Result<Self> {
        let ranks = ContractionRanks { batch: out.rank().saturating_sub(2), k: 1 };
        Self::new(types, precision, ranks, [a, b, out])
    }

    /// Returns the number of elements along all axes of one kind.
    pub fn size(axes: &[ContractionAxis]) -> usize {
        axes.iter().map(|it| it.size).product()
    }

    /// Returns the axes of an operand (0 or 1) or of the result (2), outermost first.
    pub fn axes_of(&self, operand: usize) -> impl Iterator<Item = &ContractionAxis> {
        let [first, second] = [[&self.m, &self.k], [&self.k, &self.n], [&self.m, &self.n]][operand];
        self.batch.iter().chain(first).chain(second)
    }

    /// Returns whether element types fit, axes have strides only in the values that have them, and the number of
    /// multiply-adds does not overflow.
    pub fn is_sound(&self) -> bool {
        let Self { types, batch, m, n, k, .. } = self;
        let lacks = |axes: &ContractionAxes, operand: usize| axes.iter().all(|it| it.strides[operand] == 0);
        let all = [batch, m, n, k].into_iter().flatten();
        let places = all.clone().try_fold(1usize, |all, it| all.checked_mul(it.size.max(1)));
        types.is_valid()
            && lacks(m, 1)
            && lacks(n, 0)
            && lacks(k, 2)
            && places.is_some_and(|it| it <= isize::MAX as usize)
    }
}

/// Drops axes of size one and merges adjacent axes that are contiguous in all values.
fn merged(sizes: &[usize], strides: &dyn Fn(usize) -> [isize; 3]) -> ContractionAxes {
    let mut axes = ContractionAxes::new();
    for (at, &size) in sizes.iter().enumerate().filter(|it| *it.1 != 1) {
        let strides = strides(at);
        match axes.last_mut() {
            Some(outer) if outer.strides == strides.map(|it| it.wrapping_mul(size as isize)) => {
                *outer = ContractionAxis { size: outer.size.saturating_mul(size), strides };
            }
            _ => axes.push(ContractionAxis { size, strides }),
        }
    }
    axes
}

impl Display for Contraction {
    /// Writes the types of operands, accumulator and result, the precision, then each axis. An axis has its kind, its
    /// size, and the strides of the values that have it, in the order `a`, `b`, result.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ContractionTypes { a, b, accumulator, out } = self.types;
        write!(f, "{a} {b} -> {accumulator}")?;
        if out != accumulator {
            write!(f, " -> {out}")?;
        }
        write!(f, " {}", self.precision)?;
        let kinds: [(_, _, &[usize]); 4] = [
            ("batch", &self.batch, &[0, 1, 2]),
            ("m", &self.m, &[0, 2]),
            ("n", &self.n, &[1, 2]),
            ("k", &self.k, &[0, 1]),
        ];
        for (name, axes, own) in kinds {
            for ContractionAxis { size, strides } in axes {
                let strides: Vec<String> = own.map_vec(|&it| strides[it].to_string());
                write!(f, ", {name} {size} ({})", strides.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shape: &[usize]) -> Layout {
        Layout::contiguous(shape)
    }

    fn matrices(a: &Layout, b: &Layout, out: &Layout) -> Result<Contraction> {
        Contraction::of_matrices(ContractionTypes::of(DType::F32), Precision::Strict, a, b, out)
    }

    #[test]
    fn axes_merge() {
        let all = matrices(&of(&[2, 1, 3, 4, 5]), &of(&[2, 1, 3, 5, 6]), &of(&[2, 1, 3, 4, 6]));
        let text = all.expect("the shapes fit").to_string();
        assert_eq!(text, "f32 f32 -> f32 strict, batch 6 (20, 30, 24), m 4 (5, 6), n 6 (1, 1), k 5 (1, 6)");
        let shared = of(&[5, 6]).broadcast_to(&[2, 3, 5, 6]).expect("a broadcast");
        let outer = of(&[2, 1, 4, 5]).broadcast_to(&[2, 3, 4, 5]).expect("a broadcast");
        let part = matrices(&outer, &shared, &of(&[2, 3, 4, 6])).expect("the shapes fit");
        assert_eq!(part.batch.len(), 2);
    }

    #[test]
    fn several_axes_of_each_kind() {
        // "abij,abjk->..." with separate heads: [batch, time, heads, width] read as [batch, heads, time, width].
        let heads = of(&[2, 7, 3, 4]).permute(&[0, 2, 1, 3]);
        let ranks = ContractionRanks { batch: 2, k: 1 };
        let types = ContractionTypes::of(DType::F32);
        let out = of(&[2, 3, 7, 7]);
        let it = Contraction::new(types, Precision::Highest, ranks, [&heads, &heads.permute(&[0, 1, 3, 2]), &out]);
        let it = it.expect("the shapes fit");
        assert!(it.is_sound());
        assert_eq!((it.batch.len(), it.m.len(), it.k.len()), (2, 1, 1));
        // Sums over two axes that are not adjacent in one operand.
        let ranks = ContractionRanks { batch: 0, k: 2 };
        let a = of(&[5, 3, 4]);
        let b = of(&[4, 3, 6]).permute(&[1, 0, 2]);
        let it = Contraction::new(types, Precision::Highest, ranks, [&a, &b, &of(&[5, 6])]).expect("the shapes fit");
        assert_eq!(it.to_string(), "f32 f32 -> f32 highest, m 5 (12, 6), n 6 (1, 1), k 3 (4, 6), k 4 (1, 18)");
    }

    #[test]
    fn refuses_what_does_not_fit() {
        for (a, b, out) in [
            (of(&[2, 3]), of(&[4, 5]), of(&[2, 5])),
            (of(&[3]), of(&[4, 5]), of(&[5])),
            (of(&[2, 2, 3]), of(&[3, 3, 5]), of(&[2, 2, 5])),
            (of(&[2, 3]), of(&[3, 5]), of(&[5, 2])),
        ] {
            assert_eq!(matrices(&a, &b, &out).expect_err("the shapes do not fit").code(), Code::Shape);
        }
        let types = ContractionTypes { b: DType::F64, ..ContractionTypes::of(DType::F32) };
        let error = Contraction::of_matrices(types, Precision::Strict, &of(&[2, 3]), &of(&[3, 4]), &of(&[2, 4]));
        assert_eq!(error.expect_err("f64 is not exact in f32").code(), Code::DType);
    }
}
