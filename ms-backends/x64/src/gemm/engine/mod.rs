//! GEMM on matrix engines (AMX, AVX512-BF16): split-bf16 GEMM for f32, bf16 GEMM, and 8-bit integer GEMM.
//!
//! An f32 operand is split into up to three bf16 components. The bits of a result depend only on its operands and the
//! kind of engine. They do not depend on blocks, threads, strides, or on whether a packed operand is cached. Operands
//! outside the representable [`range`] are left to the vector path.

mod batch_reduce;
mod block;
mod choice;
mod dots;
mod kernel;
mod packed;
mod range;
mod split;
#[cfg(any(test, feature = "emulation"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod tiles;

use super::matrices::Matrices;
use super::{Matrix, To};
use crate::isa::Isa;
pub use batch_reduce::{BLOCK, Filters, Layout, TILE};
use block::{Output, Product};
pub use choice::{EngineChoice, Floats, PackedLeft};
use kernel::Split;
use ms_ir::StepOperand;
use ms_ir::data::DType;
use ms_ir::error::Result;
use ms_ir::{ContractionTypes, Precision};
use packed::{Cached, Operand, Packed};
use range::range_of;
pub use range::{Range as Magnitudes, range_of_elements};
use split::Packing;

/// Minimum rows and columns, and minimum reduction dimension, of a GEMM whose right operand is cached in packed form.
/// Integer GEMM has the same thresholds.
const MIN_CACHED: [usize; 2] = [32, 64];

/// Minimum number of rows of a GEMM with [all component products of f32](Split::is_full).
///
/// A training step writes its parameters, so every call packs them again. Fewer rows do not amortise that packing.
const MIN_CACHED_ROWS: usize = 64;

/// Minimum rows, columns and reduction dimension of a GEMM that packs both operands: for AMX, and for AVX512-BF16.
const MIN_PACKED: [usize; 2] = [128, 64];

/// Minimum rows, columns and reduction dimension, and minimum number of multiplications, of other GEMMs on AMX. Enough
/// multiplications amortise packing one operand for few rows or columns of the other.
const MIN_LARGE: [usize; 2] = [64, 1 << 24];

/// Maximum number of bytes of an operand that is packed as a whole. The blocks of a larger operand pack their own
/// micro-panels.
const MAX_PACKED_BYTES: usize = 64 << 20;

/// The matrix engine that runs a GEMM.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Engine {
    /// No engine: the vector path computes the product.
    None,
    /// Tile registers (Intel AMX).
    Tiles(Implementation),
    /// Vector dot products (AVX512-BF16).
    Dots(Implementation),
}

/// The implementation of an engine's instructions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Implementation {
    /// The emulation in plain Rust: for tests, on every machine.
    #[cfg(any(test, feature = "emulation"))]
    Emulated,
    /// The instructions of the processor.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Native,
}

impl Engine {
    /// Returns the matrix engine of an instruction set of this machine. Returns [`Engine::None`] if it has none, if the
    /// system refuses the registers, or if the processor multiplies wrongly.
    ///
    /// The first call for an engine requests the registers of the system, and tests the processor.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub fn of(isa: Isa) -> Self {
        match Self::of_isa(isa, Implementation::Native) {
            Self::Tiles(_) if !tiles::is_present() => Self::None,
            Self::Dots(_) if !dots::is_present() => Self::None,
            engine => engine,
        }
    }

    /// Returns the matrix engine of an instruction set of this machine.
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    pub fn of(_: Isa) -> Self {
        Self::None
    }

    /// Returns the matrix engine that belongs to an instruction set.
    #[cfg(any(test, all(target_arch = "x86_64", target_os = "linux")))]
    const fn of_isa(isa: Isa, implementation: Implementation) -> Self {
        match isa {
            Isa::Interp | Isa::Avx2 | Isa::Avx512 => Self::None,
            Isa::Avx512Bf16 => Self::Dots(implementation),
            Isa::Avx512Amx => Self::Tiles(implementation),
        }
    }

    /// Returns the engine of this machine if it speeds up a GEMM of these sizes. `is_cached` says that the right
    /// operand may be cached in packed form.
    fn detect_profitable(isa: Isa, split: Split, sizes: [usize; 3], is_cached: bool) -> Self {
        let is_faster = |it: &Self| it.supports(split) && it.is_profitable(split, sizes, is_cached);
        let [m, _, n] = sizes;
        // The smallest GEMMs skip the detection of an engine.
        let all = if m.min(n) >= MIN_CACHED[0] { Self::of(isa) } else { Self::None };
        Some(all).filter(is_faster).unwrap_or(Self::None)
    }

    /// Whether the engine is profitable for these sizes. Integer GEMM has lower thresholds, as it has no fast vector
    /// path.
    fn is_profitable(self, split: Split, [m, k, n]: [usize; 3], is_cached: bool) -> bool {
        let [side, depth] = match self {
            _ if is_cached || matches!(split, Split::Bytes(_)) => MIN_CACHED,
            Self::Dots(_) => [MIN_PACKED[1]; 2],
            _ => [MIN_PACKED[0]; 2],
        };
        let is_large = m.min(n).min(k) >= MIN_LARGE[0] && m * k * n >= MIN_LARGE[1] && matches!(self, Self::Tiles(_));
        (is_large || (m.min(n) >= side && k >= depth)) && (m >= MIN_CACHED_ROWS || !split.is_full())
    }

    /// Whether the engine supports this split. AVX512-BF16 only runs one component product: with more, fused
    /// multiply-adds on vectors are as fast.
    pub fn supports(self, split: Split) -> bool {
        match self {
            Self::None => false,
            Self::Tiles(_) => true,
            Self::Dots(_) => split == Split::Floats([1, 1]),
        }
    }
}

impl Split {
    /// Returns the split of a contraction's operands; `None` if no engine supports its types in this precision.
    fn from_types(types: ContractionTypes, precision: Precision) -> Option<Self> {
        let operands = [types.a, types.b];
        let is_byte = |it: DType| matches!(it, DType::I8 | DType::U8);
        if types.accumulator == DType::F32 && precision.is_relaxed() && !operands.contains(&DType::F16) {
            let components = match precision {
                Precision::Strict | Precision::Highest => 3,
                Precision::High => 2,
                Precision::Medium => 1,
            };
            return Some(Self::Floats(operands.map(|it| if it == DType::BF16 { 1 } else { components })));
        }
        operands.into_iter().all(is_byte).then(|| Self::Bytes(operands.map(DType::is_signed_int)))
    }
}

/// Runs a batch of GEMMs on a matrix engine and returns whether it has done so.
///
/// `engine` forces an engine for every size; without it, an engine runs only where it is profitable. The function
/// returns false if an operand has elements outside the engine's range.
///
/// # Safety
/// The conditions of [`BatchedGemm::run`](super::BatchedGemm::run) hold, and this machine has the given engine.
///
/// # Errors
/// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands or for output tiles.
pub unsafe fn run(
    engine: Option<Engine>,
    isa: Isa,
    (types, precision): (ContractionTypes, Precision),
    product: &Matrices,
    operands: [StepOperand<'_>; 2],
    to: To<'_>,
) -> Result<bool> {
    let Some(split) = Split::from_types(types, precision) else { return Ok(false) };
    let &Matrices { m, k, n, .. } = product;
    let [left, right] = operands.map(|it| it.parameter_storage.map(|it| &**it).filter(|it| it.may_be_held()));
    // A cached operand becomes the right one: the transposed product is computed if only the left operand can be
    // cached.
    let is_transposed = left.is_some() && right.is_none();
    let cache = right.or(left);
    let sizes = if is_transposed { [n, k, m] } else { [m, k, n] };
    let engine = engine.unwrap_or_else(|| Engine::detect_profitable(isa, split, sizes, cache.is_some()));
    if [product.count(), m, k, n].contains(&0) || !engine.supports(split) {
        return Ok(false);
    }
    let side = |operand: usize, steps: [isize; 2], dtype: DType| {
        let first = operands[operand].address as *const u8;
        let matrix = Matrix { first, steps: steps.map(|it| it * dtype.size() as isize) };
        let packing = Packing::new(isa, dtype, split.components()[operand], (operand == 1) != is_transposed);
        Operand { matrix: if is_transposed { matrix.transposed() } else { matrix }, dtype, packing }
    };
    let [a, b] = [side(0, product.a, types.a), side(1, product.b, types.b)];
    let steps = product.out.map(|it| it * types.out.size() as isize);
    let matrix = Matrix { first: to.first, steps };
    let element_sizes = types.all().map(|it| it.size() as isize);
    let offsets = |it: usize| {
        let mut at = product.offsets(it);
        at.iter_mut().zip(element_sizes).for_each(|(at, size)| *at *= size);
        if is_transposed {
            at.swap(0, 1);
        }
        at
    };
    let (left, right, matrix, split) = match is_transposed {
        true => (b, a, matrix.transposed(), split.transposed()),
        false => (a, b, matrix, split),
    };
    let [m, k, n] = sizes;
    let batch = product.count();
    let is_same = product.is_same(if is_transposed { 0 } else { 1 });
    // SAFETY: `product`'s offsets and strides address live operand elements by this function's contract, and `engine`
    // is either detected on this machine or given.
    unsafe {
        let cached = cache.and_then(|it| Cached::get_or_pack(it, right, [k, n], 1));
        let of_cached = cached.as_ref().map(|it| it.packed.as_ref());
        if of_cached.is_some_and(|it| it.is_none()) {
            return Ok(false);
        }
        let out = Output { matrix, dtype: types.out, isa };
        let product = Product { engine, split, sizes, left, right, out, accumulate: false };
        let output_tiles = to.output_tiles.as_ref().map(|it| (it, is_transposed));
        let packed = product.pack(&(0..batch), is_same, offsets, [false, cached.is_some()], output_tiles)?;
        let packed = [packed[0].as_ref(), of_cached.flatten().or(packed[1].as_ref())];
        if let Split::Floats(components) = split {
            let range = |operand: usize, side: Operand, sizes: [usize; 2], count: usize| match packed[operand] {
                Some(it) => it.range,
                None => range_of(isa, side.dtype, side.matrix, sizes, count, |it| offsets(it)[operand]),
            };
            let of_right = range(1, right, [k, n], if is_same { 1 } else { batch });
            if !of_right.allows(components[1]) {
                return Ok(false);
            }
            let of_left = range(0, left, [m, k], batch);
            if !of_left.allows(components[0]) || !of_left.allows_products(of_right) {
                return Ok(false);
            }
        }
        product.multiply(0..batch, offsets, packed.map(|it| it.map(Packed::panels)), output_tiles)?;
    }
    Ok(true)
}
