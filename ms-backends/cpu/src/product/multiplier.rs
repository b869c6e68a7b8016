//! Products of matrices that an op of the library makes in parts: on a unit where that is permitted and faster,
//! otherwise in order.
//!
//! Which of both is decided for the whole op, so that its bits do not depend on how it is cut.

use super::tile::Wide;
use super::units::{Chosen, Filters, Floats, Lefts, Magnitudes, Units, range_of_elements};
use super::{Matrix, Ordered};
use crate::isa::Isa;
use ms_core::error::Result;
use ms_core::ir::Precision;
use ms_core::tensor::{DType, HostArray, Storage};
use std::ops::Range;

/// Elements of operands of an op.
#[derive(Clone, Copy)]
pub struct Elements<'a, W> {
    /// All, without gaps.
    pub all: &'a [W],
    /// The block of memory that they are in, if slots may hold it: what is packed of it is kept.
    held: Option<&'a Storage>,
}

impl<'a, W> From<&'a [W]> for Elements<'a, W> {
    fn from(all: &'a [W]) -> Self {
        Self { all, held: None }
    }
}

impl<'a, W: Wide> Elements<'a, W> {
    /// Those of an array of this type without gaps.
    pub fn of(array: &'a HostArray<'_>) -> Self {
        let block: &Storage = array.storage();
        let all = array.as_slice().expect("the caller compared the dtype, and there are no gaps");
        Self { all, held: Some(block).filter(|it| it.may_be_held()) }
    }

    /// Whether what is packed of them is kept.
    pub fn is_held(self) -> bool {
        self.held.is_some()
    }

    /// The block of memory that they are in, if slots may hold it.
    pub fn held(self) -> Option<&'a Storage> {
        self.held
    }

    /// The same as f32, if they are.
    pub fn of_f32(self) -> Option<Elements<'a, f32>> {
        // SAFETY: the types are one.
        let all = || unsafe { std::slice::from_raw_parts(self.all.as_ptr().cast(), self.all.len()) };
        (W::DTYPE == DType::F32).then(|| Elements { all: all(), held: self.held })
    }
}

impl Elements<'_, f32> {
    /// The range of their magnitudes, on a machine with this instruction set.
    pub fn range(self, isa: Isa) -> Magnitudes {
        // SAFETY: the elements are those of the slice, in its block.
        unsafe { range_of_elements(isa, DType::F32, (self.all.as_ptr().cast(), self.all.len(), self.held)) }
    }
}

/// What an op of the library may use for products.
#[derive(Clone, Copy)]
pub struct Arithmetic {
    /// The instruction set.
    pub isa: Isa,
    /// The precision.
    pub precision: Precision,
    /// The units on which products of any size run; large ones run on those of the machine if none are given.
    units: Option<Units>,
}

impl Arithmetic {
    /// That of an instruction set in a precision.
    pub fn new(isa: Isa, precision: Precision) -> Self {
        Self { isa, precision, units: None }
    }

    /// Whether sums of products may be computed from fewer products of sums.
    pub fn allows_transforms(self) -> bool {
        self.precision.is_relaxed() && self.units.is_none()
    }

    /// The same with products of any size on these units.
    #[cfg(test)]
    pub fn on(self, units: Units) -> Self {
        Self { units: Some(units), ..self }
    }

    /// That of elements of this type that were widened to f32.
    pub fn of_widened(self, dtype: DType) -> Self {
        let precision = match (self.precision, dtype) {
            // What `Medium` rounds factors to.
            (Precision::Highest | Precision::High | Precision::Medium, DType::BF16) => Precision::Medium,
            // No unit multiplies others.
            _ => Precision::Strict,
        };
        Self { precision, ..self }
    }

    /// What multiplies for an op whose products have sizes `[m, k, n]` in all, and operands with these elements, or zeros
    /// as well.
    pub fn multiplier<W: Wide>(self, sizes: [usize; 3], elements: [Elements<'_, W>; 2]) -> Multiplier {
        let Self { isa, precision, units } = self;
        let elements = elements.map(|it| (it.all.as_ptr().cast(), it.all.len(), it.held));
        // SAFETY: the elements are those of slices, in their blocks.
        let unit = unsafe { Chosen::of(units, isa, (W::DTYPE, precision), sizes, elements) };
        Multiplier { isa, unit }
    }
}

/// What multiplies for one op.
#[derive(Clone, Copy)]
pub struct Multiplier {
    isa: Isa,
    unit: Option<Chosen>,
}

impl Multiplier {
    /// Whether products run on a unit, whose order of terms is another one.
    pub fn has_unit(self) -> bool {
        self.unit.is_some()
    }

    /// Whether products run on a unit that is so fast that it pays to make matrices for it.
    pub fn pays_for_matrices(self) -> bool {
        self.unit.is_some_and(Chosen::pays_for_matrices)
    }

    /// The left operands of [batch-reduce products](Filters), packed or as they are kept: `count` matrices without gaps of `m`
    /// rows, of which each has the terms of all taps of its first channel, then those of the next one. `None` if no unit
    /// multiplies in blocks, or they are too large.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for packed operands.
    pub fn filters<W: Wide>(
        self,
        Elements { all: elements, held }: Elements<'_, W>,
        count: usize,
        [m, channels]: [usize; 2],
        taps: usize,
    ) -> Result<Option<Filters>> {
        let k = channels * taps;
        assert!(elements.len() >= count * m * k, "the operands have their elements");
        let Some(unit) = self.unit.filter(|it| it.multiplies_blocks()) else { return Ok(None) };
        let matrix = Matrix::dense(elements.as_ptr(), k).in_bytes();
        // SAFETY: the elements are those of the slice, in its block.
        let packed = unsafe { unit.pack(matrix, [m, k], taps, count, held)? };
        Ok(packed.map(|it| Filters::new(unit, it)))
    }

    /// The left operands, without gaps, of products: `count` matrices of sizes `[m, k]`, stored by columns if so it says.
    /// What is packed for several products is packed here, or was before and is kept.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for packed operands.
    pub fn left<W: Wide>(
        self,
        Elements { all: elements, held }: Elements<'_, W>,
        count: usize,
        [m, k]: [usize; 2],
        by_columns: bool,
    ) -> Result<Left<'_, W>> {
        assert!(elements.len() >= count * m * k, "the operands have their elements");
        let steps = if by_columns { [1, m as isize] } else { [k as isize, 1] };
        let matrix = Matrix { first: elements.as_ptr(), steps };
        // SAFETY: the elements are those of the slice, in its block.
        let pack = |unit: Chosen| unsafe { unit.pack(matrix.in_bytes(), [m, k], 1, count, held) };
        let packed = self.unit.map(pack).transpose()?.flatten();
        Ok(Left { by: self, elements, steps, count, sizes: [m, k], packed })
    }
}

/// Left operands of products.
pub struct Left<'a, W> {
    by: Multiplier,
    elements: &'a [W],
    /// Steps between rows and between columns of each.
    steps: [isize; 2],
    count: usize,
    /// `[m, k]`
    sizes: [usize; 2],
    packed: Option<Lefts>,
}

impl<W: Wide> Left<'_, W> {
    /// Computes the products with these numbers, of which each has the left operand with its number modulo that of all.
    /// `places` returns offsets of right operands and of results, which have `n` columns, in elements. If results have
    /// sums of earlier terms, those of the products are added.
    ///
    /// # Safety
    /// As [`Ordered::run`]; the right operands have only elements that the [multiplier](Arithmetic::multiplier) was told
    /// of, and zeros.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for packed operands.
    pub unsafe fn multiply(
        &self,
        products: Range<usize>,
        places: impl Fn(usize) -> [isize; 2] + Sync,
        right: Matrix<*const W>,
        out: Matrix<*mut W>,
        n: usize,
        accumulate: bool,
    ) -> Result<()> {
        let ([m, k], count) = (self.sizes, self.count);
        let left = Matrix { first: self.elements.as_ptr(), steps: self.steps };
        let places = |it: usize| {
            let [right, out] = places(it);
            [(it % count * m * k) as isize, right, out]
        };
        let sizes = [m, k, n];
        // SAFETY: the caller's contract is the same; the left operands are in the slice.
        unsafe {
            let Some(unit) = self.by.unit else {
                let product = Ordered { isa: self.by.isa, sizes, accumulate, in_lanes: false };
                return product.run(products.len(), |it| places(products.start + it), left, right, out);
            };
            let floats =
                Floats { sizes, operands: [left, right].map(Matrix::in_bytes), out: out.in_bytes(), accumulate };
            let places = |it: usize| places(it).map(|at| at * size_of::<W>() as isize);
            unit.run(floats, products, places, self.packed.as_ref())
        }
    }
}
