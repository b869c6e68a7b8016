//! Chooses one matrix engine for all products of an op, so that the op's partition does not affect its bits.

use super::block::{Output, Product};
use super::kernel::Split;
use super::packed::{Cached, Operand, Packed, Panels};
use super::range::{Elements, range_of_elements};
use super::split::Packing;
use super::{Engine, MAX_PACKED_BYTES};
use crate::gemm::Matrix;
use crate::isa::Isa;
use ms_ir::data::{DType, Storage};
use ms_ir::error::Result;
use ms_ir::{ContractionTypes, Precision};
use std::ops::Range;
use std::sync::Arc;

/// A matrix engine and the split of its float operands.
#[derive(Clone, Copy)]
pub struct EngineChoice {
    pub(super) engine: Engine,
    pub(super) isa: Isa,
    dtype: DType,
    pub(super) split: Split,
    /// Whether the engine was forced, for products of any size.
    is_forced: bool,
}

/// A float GEMM, with strides in bytes.
pub struct Floats {
    /// `[m, k, n]`
    pub sizes: [usize; 3],
    /// The operands.
    pub operands: [Matrix<*const u8>; 2],
    /// The result.
    pub out: Matrix<*mut u8>,
    /// Whether products are added to the sums in the result.
    pub accumulate: bool,
}

/// Packed left operands: of one call, or cached with a parameter.
pub enum PackedLeft {
    Own(Packed),
    Cached(Arc<Cached>),
}

impl PackedLeft {
    /// Returns the micro-panels, unless the range of a cached operand forbids the split.
    pub(super) fn panels(&self) -> Option<Panels> {
        match self {
            Self::Own(packed) => Some(packed.panels()),
            Self::Cached(cached) => cached.packed.as_ref().map(Packed::panels),
        }
    }
}

impl EngineChoice {
    /// Chooses the engine for products of these total sizes: the forced one, or this machine's where it is profitable.
    /// `is_cached` says that the packed left operand may be cached.
    ///
    /// `None` if no engine supports the dtype in this precision.
    pub fn new(
        engine: Option<Engine>,
        isa: Isa,
        (dtype, precision): (DType, Precision),
        sizes: [usize; 3],
        is_cached: bool,
    ) -> Option<Self> {
        let split = Split::from_types(ContractionTypes::of(dtype), precision)?;
        // A left operand that can be cached counts as the right one of the transposed product.
        let [m, k, n] = sizes;
        let sizes_of_cached = if is_cached { [n, k, m] } else { sizes };
        let is_forced = engine.is_some();
        let engine = engine.unwrap_or_else(|| Engine::detect_profitable(isa, split, sizes_of_cached, is_cached));
        let is_supported = engine.supports(split) && !sizes.contains(&0);
        is_supported.then_some(Self { engine, isa, dtype, split, is_forced })
    }

    /// Whether all elements of the operands lie in the engine's range.
    ///
    /// # Safety
    /// The elements are valid for reads, lie in their storage if there is one, and the machine has the instruction set.
    pub unsafe fn allows(self, operands: [Elements<'_>; 2]) -> bool {
        // SAFETY: the elements are valid for reads and lie in their storage, and the machine has `isa`, by this
        // function's contract.
        let [a, b] = operands.map(|it| unsafe { range_of_elements(self.isa, self.dtype, it) });
        let [of_a, of_b] = self.split.components();
        a.allows(of_a) && b.allows(of_b) && a.allows_products(b)
    }

    /// Whether the engine is so much faster than vectors that building an im2col buffer for it pays off.
    pub fn pays_for_im2col(self) -> bool {
        self.is_forced || !self.split.is_full()
    }

    /// Whether to use channel-blocked convolution: on AMX, and on every forced engine.
    pub fn supports_blocked(self) -> bool {
        self.is_forced || matches!(self.engine, Engine::Tiles(_))
    }

    /// Whether [`pack`](Self::pack) packs left operands of these sizes, rather than every product its own.
    pub fn packs(self, [m, k]: [usize; 2], taps: usize, count: usize) -> bool {
        let packing = Packing::new(self.isa, self.dtype, self.split.components()[0], false).with_taps(taps);
        Packed::bytes(packing, [k, m], count) <= MAX_PACKED_BYTES
    }

    fn side(self, operand: usize, matrix: Matrix<*const u8>) -> Operand {
        let packing = Packing::new(self.isa, self.dtype, self.split.components()[operand], operand == 1);
        Operand { matrix, dtype: self.dtype, packing }
    }

    /// Packs the left operands of a batch, which are contiguous in memory, or returns their cached packed form. `None`
    /// if they are so large that every product packs its own.
    ///
    /// The reduction dimension runs over this number of kernel taps, which is one for plain GEMM.
    ///
    /// # Safety
    /// The elements are valid for reads, lie in the `held` storage if there is one, and the machine has the instruction
    /// set.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the packed operands.
    pub unsafe fn pack(
        self,
        first: Matrix<*const u8>,
        [m, k]: [usize; 2],
        taps: usize,
        count: usize,
        held: Option<&Storage>,
    ) -> Result<Option<PackedLeft>> {
        let mut side = self.side(0, first.transposed());
        side.packing = side.packing.with_taps(taps);
        if !self.packs([m, k], taps, count) {
            return Ok(None);
        }
        // SAFETY: the `count` matrices of `m` by `k` elements are valid for reads and lie in `held`, by this function's
        // contract.
        unsafe {
            if let Some(cached) = held.and_then(|it| Cached::get_or_pack(it, side, [k, m], count)) {
                return Ok(Some(PackedLeft::Cached(cached)));
            }
            Packed::new(side, [k, m], count).map(|it| Some(PackedLeft::Own(it)))
        }
    }

    /// Multiplies the pairs of matrices with these indices; `offsets` returns their byte offsets. A pair's left operand
    /// in `packed` has the pair's index modulo the number of left operands.
    ///
    /// # Safety
    /// The conditions of [`Ordered::run`](crate::gemm::Ordered::run) hold. Every element of an operand is one that
    /// [`Self::allows`] has scanned, or zero.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands.
    pub unsafe fn run(
        self,
        floats: Floats,
        pairs: Range<usize>,
        offsets: impl Fn(usize) -> [isize; 3] + Sync,
        packed: Option<&PackedLeft>,
    ) -> Result<()> {
        let Floats { sizes, operands: [a, b], out, accumulate } = floats;
        let Self { engine, split, dtype, .. } = self;
        let (left, right, out) = (self.side(0, a), self.side(1, b), Output { matrix: out, dtype, isa: self.isa });
        let product = Product { engine, split, sizes, left, right, out, accumulate };
        // SAFETY: the matrices are valid by this function's contract, and `new` has detected the engine or was given
        // it.
        unsafe { product.run(pairs, offsets, packed.and_then(PackedLeft::panels)) }
    }
}
