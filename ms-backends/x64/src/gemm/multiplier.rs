//! Runs the GEMMs that native ops are built from: on a matrix engine where that is permitted and profitable, otherwise
//! in order.
//!
//! The choice is made once for an op, so that its partition does not affect its bits.

use super::element::Accumulator;
use super::engine::{Engine, EngineChoice, Filters, Floats, Layout, Magnitudes, PackedLeft, range_of_elements};
use super::{EarlierSums, Matrix, Ordered};
use crate::isa::Isa;
use ms_ir::Precision;
use ms_ir::data::{DType, Storage};
use ms_ir::error::Result;
use std::ops::Range;

/// The elements of an op's operand.
#[derive(Clone, Copy)]
pub struct Elements<'a, W> {
    /// All elements, contiguous.
    pub all: &'a [W],
    /// The parameter storage, if packing may be cached there.
    held: Option<&'a Storage>,
}

impl<'a, W> From<&'a [W]> for Elements<'a, W> {
    fn from(all: &'a [W]) -> Self {
        Self { all, held: None }
    }
}

impl<'a, W: Accumulator> Elements<'a, W> {
    /// Returns elements that lie in a block if there is one.
    ///
    /// # Safety
    /// The elements are part of the block, and nothing writes it meanwhile.
    pub unsafe fn in_block(all: &'a [W], block: Option<&'a Storage>) -> Self {
        Self { all, held: block.filter(|it| it.may_be_held()) }
    }

    /// Whether packed forms of the elements are cached.
    pub fn is_held(self) -> bool {
        self.held.is_some()
    }

    /// Returns the parameter storage, if packing may be cached there.
    pub fn held(self) -> Option<&'a Storage> {
        self.held
    }

    /// Returns the elements as f32 if `W` is f32.
    pub fn as_f32(self) -> Option<Elements<'a, f32>> {
        // SAFETY: the closure runs only if `W` is f32, so that the slice is cast to its own type.
        let all = || unsafe { std::slice::from_raw_parts(self.all.as_ptr().cast(), self.all.len()) };
        (W::DTYPE == DType::F32).then(|| Elements { all: all(), held: self.held })
    }
}

impl Elements<'_, f32> {
    /// Returns the range of magnitudes; `isa` must be an instruction set of this machine.
    pub fn range(self, isa: Isa) -> Magnitudes {
        // SAFETY: `all` is a slice that lies in `held` if there is one, and the machine has `isa`.
        unsafe { range_of_elements(isa, DType::F32, (self.all.as_ptr().cast(), self.all.len(), self.held)) }
    }
}

/// The arithmetic that a native op may use for its products.
#[derive(Clone, Copy)]
pub struct Arithmetic {
    /// The instruction set.
    pub isa: Isa,
    /// The precision.
    pub precision: Precision,
    /// The matrix engine that is forced for every size; if there is none, large products run on this machine's engine.
    engine: Option<Engine>,
}

impl Arithmetic {
    /// Returns the arithmetic of an instruction set in a precision.
    #[inline]
    pub fn new(isa: Isa, precision: Precision) -> Self {
        Self { isa, precision, engine: None }
    }

    /// Whether Winograd is permitted.
    #[inline]
    pub fn allows_winograd(self) -> bool {
        self.precision.is_relaxed() && self.engine.is_none()
    }

    /// Forces a matrix engine for products of any size.
    #[cfg(any(test, feature = "emulation"))]
    pub fn on(self, engine: Engine) -> Self {
        Self { engine: Some(engine), ..self }
    }

    /// Returns the arithmetic for elements of `dtype` that were widened to f32.
    #[inline]
    pub fn for_widened(self, dtype: DType) -> Self {
        let precision = match (self.precision, dtype) {
            // `Medium` rounds operands to bf16, which leaves these elements unchanged.
            (Precision::Highest | Precision::High | Precision::Medium, DType::BF16) => Precision::Medium,
            // No engine supports other types.
            _ => Precision::Strict,
        };
        Self { precision, ..self }
    }

    /// Chooses how an op multiplies, before its operands are known. `sizes` are the total `[m, k, n]` of its products.
    pub fn products<W: Accumulator>(self, sizes: [usize; 3]) -> Products {
        let Self { isa, precision, engine } = self;
        let choice = |is_cached| EngineChoice::new(engine, isa, (W::DTYPE, precision), sizes, is_cached);
        Products { isa, engines: [false, true].map(choice) }
    }
}

/// The choice of how an op multiplies operands that are not known yet.
#[derive(Clone, Copy)]
pub struct Products {
    isa: Isa,
    /// The engines, for left operands whose packed form is not cached, and for those whose packed form may be.
    engines: [Option<EngineChoice>; 2],
}

impl Products {
    /// Returns the choice for operands in the range of the engine, if there is one. `is_cached` says that the packed
    /// left operand may be cached.
    pub fn in_range(self, is_cached: bool) -> Multiplier {
        Multiplier { isa: self.isa, engine: self.engines[usize::from(is_cached)] }
    }

    /// Returns the choice for operands outside the range of an engine.
    pub fn out_of_range(self) -> Multiplier {
        Multiplier { isa: self.isa, engine: None }
    }

    /// Returns the choice for these operands. Products read only these elements, and zeros.
    pub fn multiplier<W: Accumulator>(self, operands: [Elements<'_, W>; 2]) -> Multiplier {
        let multiplier = self.in_range(operands[0].is_held());
        let elements = operands.map(|it| (it.all.as_ptr().cast(), it.all.len(), it.held));
        // SAFETY: the elements are slices that lie in their storage if there is one, and the machine has `isa`.
        let allows = |engine: EngineChoice| unsafe { engine.allows(elements) };
        Multiplier { engine: multiplier.engine.filter(|&it| allows(it)), ..multiplier }
    }
}

/// The choice of how an op multiplies.
#[derive(Clone, Copy)]
pub struct Multiplier {
    isa: Isa,
    engine: Option<EngineChoice>,
}

impl Multiplier {
    /// Whether products run on a matrix engine, which has its own order of sums.
    #[inline]
    pub fn has_engine(self) -> bool {
        self.engine.is_some()
    }

    /// Whether the engine is so fast that building an im2col buffer for it pays off.
    pub fn pays_for_im2col(self) -> bool {
        self.engine.is_some_and(EngineChoice::pays_for_im2col)
    }

    /// Whether the engine runs [batch-reduce GEMM](Filters).
    pub fn supports_blocked(self) -> bool {
        self.engine.is_some_and(EngineChoice::supports_blocked)
    }

    /// Whether [`filters`](Self::filters) are so small that they can be packed.
    pub fn packs_filters(self, count: usize, [m, channels]: [usize; 2], taps: usize) -> bool {
        self.engine.is_some_and(|it| it.packs([m, channels * taps], taps, count))
    }

    /// Returns the layout of the channels of batch-reduce GEMM, with `places` spatial positions.
    ///
    /// # Panics
    /// Panics without an engine.
    pub fn blocked_layout(self, places: usize) -> Layout {
        self.engine.expect("an engine supports blocked convolution").blocked_layout(places)
    }

    /// Packs the filters of [batch-reduce GEMM](Filters), or returns their cached form.
    ///
    /// Filters are `count` contiguous matrices of `m` rows; a row has all taps of its first channel, then those of the
    /// next channel.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed filters.
    ///
    /// # Panics
    /// Panics without an engine, and if the filters are [too large](Self::packs_filters).
    pub fn filters<W: Accumulator>(
        self,
        Elements { all: elements, held }: Elements<'_, W>,
        count: usize,
        [m, channels]: [usize; 2],
        taps: usize,
    ) -> Result<Filters> {
        let k = channels * taps;
        assert!(elements.len() >= count * m * k, "the operands have their elements");
        let engine = self.engine.expect("an engine supports blocked convolution");
        let matrix = Matrix::dense(elements.as_ptr(), k).in_bytes();
        // SAFETY: `elements` has `count * m * k` elements by the assertion, and lies in `held` if there is one.
        let packed = unsafe { engine.pack(matrix, [m, k], taps, count, held)? };
        Ok(Filters::new(engine, packed.expect("the caller asked whether filters are packed")))
    }

    /// Prepares the left operands of products: `count` contiguous matrices of sizes `[m, k]`, stored column by column
    /// if `by_columns`. Operands of several products are packed here, or come from the cache.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands.
    pub fn left<W: Accumulator>(
        self,
        Elements { all: elements, held }: Elements<'_, W>,
        count: usize,
        [m, k]: [usize; 2],
        by_columns: bool,
    ) -> Result<Left<'_, W>> {
        assert!(elements.len() >= count * m * k, "the operands have their elements");
        let steps = if by_columns { [1, m as isize] } else { [k as isize, 1] };
        let matrix = Matrix { first: elements.as_ptr(), steps };
        // SAFETY: `elements` has `count * m * k` elements by the assertion, and lies in `held` if there is one.
        let pack = |engine: EngineChoice| unsafe { engine.pack(matrix.in_bytes(), [m, k], 1, count, held) };
        let packed = self.engine.map(pack).transpose()?.flatten();
        Ok(Left { multiplier: self, elements, steps, count, sizes: [m, k], packed })
    }
}

/// Left operands of products.
pub struct Left<'a, W> {
    multiplier: Multiplier,
    elements: &'a [W],
    /// Strides between rows and between columns of each operand.
    steps: [isize; 2],
    count: usize,
    /// `[m, k]`
    sizes: [usize; 2],
    packed: Option<PackedLeft>,
}

impl<W: Accumulator> Left<'_, W> {
    /// Computes the products with these indices. A product uses the left operand with its index modulo their number.
    ///
    /// `offsets` returns the element offsets of right operands and of results, which have `n` columns. Products are
    /// combined with `earlier` sums. A matrix engine continues one earlier sum, in its own order.
    ///
    /// # Safety
    /// The conditions of [`Ordered::run`] hold. Right operands have only elements that the
    /// [multiplier](Products::multiplier) has scanned, and zeros.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands.
    pub unsafe fn multiply(
        &self,
        products: Range<usize>,
        offsets: impl Fn(usize) -> [isize; 2] + Sync,
        right: Matrix<*const W>,
        out: Matrix<*mut W>,
        n: usize,
        earlier: EarlierSums,
    ) -> Result<()> {
        let ([m, k], count) = (self.sizes, self.count);
        let left = Matrix { first: self.elements.as_ptr(), steps: self.steps };
        let offsets = |it: usize| {
            let [right, out] = offsets(it);
            [(it % count * m * k) as isize, right, out]
        };
        let sizes = [m, k, n];
        // SAFETY: the right operands and results are valid by this function's contract. Left offsets stay below
        // `count * m * k`, the least length of the slice.
        unsafe {
            let Some(engine) = self.multiplier.engine else {
                let product = Ordered { isa: self.multiplier.isa, sizes, earlier, vectorised_sums: false };
                return product.run(products.len(), |it| offsets(products.start + it), left, right, out);
            };
            debug_assert!(earlier.count <= 1);
            let accumulate = earlier.count > 0;
            let floats =
                Floats { sizes, operands: [left, right].map(Matrix::in_bytes), out: out.in_bytes(), accumulate };
            let offsets = |it: usize| offsets(it).map(|at| at * size_of::<W>() as isize);
            engine.run(floats, products, offsets, self.packed.as_ref())
        }
    }
}
