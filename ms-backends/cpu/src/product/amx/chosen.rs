//! A unit for all products of one op, whose bits then do not depend on how the op cuts its matrices.

use super::block::{Out, Product, Side};
use super::kernel::Terms;
use super::packed::Packed;
use super::range::range_of_row;
use super::split::Packing;
use super::{Units, WHOLE, is_worth_it};
use crate::isa::Isa;
use crate::product::Matrix;
use ms_core::error::Result;
use ms_core::ir::{ContractionTypes, Precision};
use ms_core::tensor::DType;
use std::ops::Range;

/// A unit, and how it multiplies floats.
#[derive(Clone, Copy)]
pub struct Chosen {
    units: Units,
    isa: Isa,
    dtype: DType,
    terms: Terms,
}

/// A product of matrices, with steps in bytes.
pub struct Floats {
    /// `[m, k, n]`
    pub sizes: [usize; 3],
    /// The operands.
    pub operands: [Matrix<*const u8>; 2],
    /// The result.
    pub out: Matrix<*mut u8>,
    /// Whether the result has sums, to which those of the product are added.
    pub accumulate: bool,
}

impl Chosen {
    /// The unit of this machine if that is faster for products that have these sizes in all, or the given one in any
    /// size; `None` if there is none for this dtype and precision, or operands that have the given elements, each of which
    /// are a first one and a number, have some that it does not multiply.
    ///
    /// # Safety
    /// The elements are valid for reads, and the machine has the instruction set and the given unit.
    pub unsafe fn of(
        units: Option<Units>,
        isa: Isa,
        (dtype, precision): (DType, Precision),
        sizes: [usize; 3],
        operands: [(*const u8, usize); 2],
    ) -> Option<Self> {
        let terms = Terms::of(ContractionTypes::of(dtype), precision)?;
        // Each right operand is packed for one product, as that of a product which is not kept.
        let own = || if is_worth_it(terms, sizes, false) { Units::of(isa) } else { Units::None };
        let units = units.unwrap_or_else(own);
        if units == Units::None || sizes.contains(&0) {
            return None;
        }
        // SAFETY: the caller's contract is the same.
        let [a, b] = operands.map(|(first, len)| unsafe { range_of_row(isa, dtype, first, len) });
        let [of_a, of_b] = terms.planes();
        let is_allowed = a.allows(of_a) && b.allows(of_b) && a.allows_products(b);
        is_allowed.then_some(Self { units, isa, dtype, terms })
    }

    fn side(self, operand: usize, matrix: Matrix<*const u8>) -> Side {
        let packing = Packing::new(self.isa, self.dtype, self.terms.planes()[operand], operand == 1);
        Side { matrix, dtype: self.dtype, packing }
    }

    /// Packs left operands of products for all of them, each of which begins where the one before it ends; `None` if
    /// they are so large that every product packs its own.
    ///
    /// # Safety
    /// The elements are valid for reads.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for them.
    pub unsafe fn pack(self, first: Matrix<*const u8>, [m, k]: [usize; 2], count: usize) -> Result<Option<Packed>> {
        let side = self.side(0, first.transposed());
        let fits = Packed::bytes(side.packing, [k, m], count) <= WHOLE;
        // SAFETY: the caller's contract is the same.
        fits.then(|| unsafe { Packed::new(side, [k, m], count) }).transpose()
    }

    /// Multiplies the pairs with these numbers; `places` returns their offsets in bytes. The left operand of a pair has
    /// its number, modulo that of all, among those that are packed.
    ///
    /// # Safety
    /// As [`Ordered::run`](crate::product::Ordered::run); all elements of operands are among those of [`Self::of`], or
    /// zeros.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for packed operands.
    pub unsafe fn run(
        self,
        floats: Floats,
        pairs: Range<usize>,
        places: impl Fn(usize) -> [isize; 3] + Sync,
        packed: Option<&Packed>,
    ) -> Result<()> {
        let Floats { sizes, operands: [a, b], out, accumulate } = floats;
        let Self { units, terms, dtype, .. } = self;
        let (left, right, out) = (self.side(0, a), self.side(1, b), Out { matrix: out, dtype });
        let is_same = pairs.len() == 1;
        let product = Product { units, terms, sizes, left, right, out, accumulate };
        // SAFETY: the caller's contract is the same; the unit is that of `of`.
        unsafe { product.run(pairs, is_same, places, [packed.map(Packed::panels), None], None) }
    }
}
