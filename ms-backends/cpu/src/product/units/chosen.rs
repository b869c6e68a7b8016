//! A unit for all products of one op, whose bits then do not depend on how the op cuts its matrices.

use super::block::{Out, Product, Side};
use super::kernel::Terms;
use super::packed::{Kept, Packed, Panels};
use super::range::{Elements, range_of_elements};
use super::split::Packing;
use super::{Units, WHOLE};
use crate::isa::Isa;
use crate::product::Matrix;
use ms_core::error::Result;
use ms_core::ir::{ContractionTypes, Precision};
use ms_core::tensor::{DType, Storage};
use std::ops::Range;
use std::sync::Arc;

/// A unit, and how it multiplies floats.
#[derive(Clone, Copy)]
pub struct Chosen {
    pub(super) units: Units,
    pub(super) isa: Isa,
    dtype: DType,
    pub(super) terms: Terms,
    /// Whether the unit was given, for products of any size.
    is_given: bool,
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

/// Packed left operands: of one call, or kept while slots hold them.
pub enum Lefts {
    Own(Packed),
    Kept(Arc<Kept>),
}

impl Lefts {
    /// The panels, unless the range of a kept operand does not allow them.
    pub(super) fn panels(&self) -> Option<Panels> {
        match self {
            Self::Own(packed) => Some(packed.panels()),
            Self::Kept(kept) => kept.packed.as_ref().map(Packed::panels),
        }
    }
}

impl Chosen {
    /// The unit of this machine if that is faster for products that have these sizes in all, or the given one in any
    /// size; `None` if there is none for this dtype and precision, or operands of these elements have some that it does
    /// not multiply.
    ///
    /// # Safety
    /// The elements are valid for reads, and the machine has the instruction set and the given unit.
    pub unsafe fn of(
        units: Option<Units>,
        isa: Isa,
        (dtype, precision): (DType, Precision),
        sizes: [usize; 3],
        operands: [Elements<'_>; 2],
    ) -> Option<Self> {
        let terms = Terms::of(ContractionTypes::of(dtype), precision)?;
        // What may be kept is the left operand, so that the transposed product is one with a right one that is.
        let ([m, k, n], is_held) = (sizes, operands[0].2.is_some());
        let sizes_of_kept = if is_held { [n, k, m] } else { sizes };
        let is_given = units.is_some();
        let units = units.unwrap_or_else(|| Units::of_product(isa, terms, sizes_of_kept, is_held));
        if !units.multiplies(terms) || sizes.contains(&0) {
            return None;
        }
        // SAFETY: the caller's contract is the same.
        let [a, b] = operands.map(|it| unsafe { range_of_elements(isa, dtype, it) });
        let [of_a, of_b] = terms.planes();
        let is_allowed = a.allows(of_a) && b.allows(of_b) && a.allows_products(b);
        is_allowed.then_some(Self { units, isa, dtype, terms, is_given })
    }

    /// Whether products take so much less time than on vectors that it pays to make matrices for them.
    pub fn pays_for_matrices(self) -> bool {
        self.is_given || !self.terms.is_full()
    }

    /// Whether convolutions are products in blocks of channels: on tiles, and on what is given.
    pub fn multiplies_blocks(self) -> bool {
        self.is_given || matches!(self.units, Units::Tiles(_))
    }

    fn side(self, operand: usize, matrix: Matrix<*const u8>) -> Side {
        let packing = Packing::new(self.isa, self.dtype, self.terms.planes()[operand], operand == 1);
        Side { matrix, dtype: self.dtype, packing }
    }

    /// Packs left operands of products for all of them, each of which begins where the one before it ends, or returns
    /// those that are kept of a block; `None` if they are so large that every product packs its own. Terms are those of so
    /// many taps, which are one in products of matrices.
    ///
    /// # Safety
    /// The elements are valid for reads, and in the block.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for them.
    pub unsafe fn pack(
        self,
        first: Matrix<*const u8>,
        [m, k]: [usize; 2],
        taps: usize,
        count: usize,
        held: Option<&Storage>,
    ) -> Result<Option<Lefts>> {
        let mut side = self.side(0, first.transposed());
        side.packing = side.packing.of_taps(taps);
        if Packed::bytes(side.packing, [k, m], count) > WHOLE {
            return Ok(None);
        }
        // SAFETY: the caller's contract is the same.
        unsafe {
            if let Some(kept) = held.and_then(|it| Kept::of(it, side, [k, m], count)) {
                return Ok(Some(Lefts::Kept(kept)));
            }
            Packed::new(side, [k, m], count).map(|it| Some(Lefts::Own(it)))
        }
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
        packed: Option<&Lefts>,
    ) -> Result<()> {
        let Floats { sizes, operands: [a, b], out, accumulate } = floats;
        let Self { units, terms, dtype, .. } = self;
        let (left, right, out) = (self.side(0, a), self.side(1, b), Out { matrix: out, dtype, isa: self.isa });
        let product = Product { units, terms, sizes, left, right, out, accumulate };
        // SAFETY: the caller's contract is the same; the unit is that of `of`.
        unsafe { product.run(pairs, places, packed.and_then(Lefts::panels)) }
    }
}
