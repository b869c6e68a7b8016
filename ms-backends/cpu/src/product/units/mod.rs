//! GEMM on matrix engines (AMX, AVX512-BF16): split-bf16 GEMM for f32, bf16 GEMM, and 8-bit integer GEMM.
//!
//! An f32 operand is split into up to three bf16 components. The bits of a result depend only on its operands and the
//! kind of engine. They do not depend on blocks, threads, strides, or on whether a packed operand is cached. Operands
//! outside the representable [`range`] are left to the vector path.

mod batch_reduce;
mod block;
mod chosen;
mod dots;
mod kernel;
mod packed;
mod range;
mod split;
#[cfg(test)]
pub mod tests;
mod tiles;

use super::matrices::Matrices;
use super::{Matrix, To};
use crate::isa::Isa;
pub use batch_reduce::{BLOCK, Filters, Layout, TILE};
use block::{Out, Product, Side};
pub use chosen::{Chosen, Floats, Lefts};
use kernel::Terms;
use ms_core::error::Result;
use ms_core::exec::ContractionOperand;
use ms_core::ir::{ContractionTypes, Precision};
use ms_core::tensor::DType;
use packed::{Kept, Packed};
use range::range_of;
pub use range::{Range as Magnitudes, range_of_elements};
use split::Packing;

/// Minimum rows and columns, and minimum reduction dimension, of a GEMM whose right operand is cached in packed form.
/// Integer GEMM has the same thresholds.
const KEPT: [usize; 2] = [32, 64];

/// Minimum number of rows of a GEMM with [all component products of f32](Terms::is_full).
///
/// A training step writes its parameters, so every call packs them again. Fewer rows do not amortise that packing.
const KEPT_ROWS: usize = 64;

/// Minimum rows, columns and reduction dimension of a GEMM that packs both operands: for AMX, and for AVX512-BF16.
const PACKED: [usize; 2] = [128, 64];

/// Minimum rows, columns and reduction dimension, and minimum number of multiplications, of other GEMMs on AMX. Enough
/// multiplications amortise packing one operand for few rows or columns of the other.
const LARGE: [usize; 2] = [64, 1 << 24];

/// Maximum number of bytes of an operand that is packed as a whole. The blocks of a larger operand pack their own
/// micro-panels.
const WHOLE: usize = 64 << 20;

/// The matrix engine that runs a GEMM.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Units {
    /// No engine: the vector path computes the product.
    None,
    /// Tile registers (Intel AMX).
    Tiles(By),
    /// Vector dot products (AVX512-BF16).
    Dots(By),
}

/// The implementation of an engine's instructions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum By {
    /// The emulation in plain Rust: for tests, on every machine.
    #[cfg(test)]
    Model,
    /// The instructions of the processor.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Processor,
}

impl Units {
    /// Detects the matrix engine that is usable with `isa`.
    pub fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Isa::Avx512 if tiles::is_present() => Self::Tiles(By::Processor),
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Isa::Avx512 if dots::is_present() => Self::Dots(By::Processor),
            _ => Self::None,
        }
    }

    /// Returns the engine of this machine if it speeds up a GEMM of these sizes. `is_kept` says that the right operand
    /// may be cached in packed form.
    fn of_product(isa: Isa, terms: Terms, sizes: [usize; 3], is_kept: bool) -> Self {
        let is_faster = |it: &Self| it.multiplies(terms) && it.is_worth_it(terms, sizes, is_kept);
        let [m, _, n] = sizes;
        // The smallest GEMMs skip the detection of an engine.
        let all = if m.min(n) >= KEPT[0] { Self::of(isa) } else { Self::None };
        Some(all).filter(is_faster).unwrap_or(Self::None)
    }

    /// Whether the engine is profitable for these sizes. Integer GEMM has lower thresholds, as it has no fast vector
    /// path.
    fn is_worth_it(self, terms: Terms, [m, k, n]: [usize; 3], is_kept: bool) -> bool {
        let [side, depth] = match self {
            _ if is_kept || matches!(terms, Terms::Bytes(_)) => KEPT,
            Self::Dots(_) => [PACKED[1]; 2],
            _ => [PACKED[0]; 2],
        };
        let is_large = m.min(n).min(k) >= LARGE[0] && m * k * n >= LARGE[1] && matches!(self, Self::Tiles(_));
        (is_large || (m.min(n) >= side && k >= depth)) && (m >= KEPT_ROWS || !terms.is_full())
    }

    /// Whether the engine supports this split. AVX512-BF16 only runs one component product: with more, fused
    /// multiply-adds on vectors are as fast.
    pub fn multiplies(self, terms: Terms) -> bool {
        match self {
            Self::None => false,
            Self::Tiles(_) => true,
            Self::Dots(_) => terms == Terms::Floats([1, 1]),
        }
    }
}

impl Terms {
    /// Returns the split of a contraction's operands; `None` if no engine supports its types in this precision.
    fn of(types: ContractionTypes, precision: Precision) -> Option<Self> {
        let operands = [types.a, types.b];
        let is_byte = |it: DType| matches!(it, DType::I8 | DType::U8);
        if types.accumulator == DType::F32 && precision.is_relaxed() && !operands.contains(&DType::F16) {
            let planes = match precision {
                Precision::Strict | Precision::Highest => 3,
                Precision::High => 2,
                Precision::Medium => 1,
            };
            return Some(Self::Floats(operands.map(|it| if it == DType::BF16 { 1 } else { planes })));
        }
        operands.into_iter().all(is_byte).then(|| Self::Bytes(operands.map(DType::is_signed_int)))
    }
}

/// Runs a batch of GEMMs on a matrix engine and returns whether it has done so.
///
/// `units` forces an engine for every size; without it, an engine runs only where it is profitable. The function
/// returns false if an operand has elements outside the engine's range.
///
/// # Safety
/// The conditions of [`run`](super::run) hold, and this machine has the given engine.
///
/// # Errors
/// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for packed operands or for output tiles.
pub unsafe fn run(
    units: Option<Units>,
    isa: Isa,
    (types, precision): (ContractionTypes, Precision),
    product: &Matrices,
    operands: [ContractionOperand<'_>; 2],
    to: To<'_>,
) -> Result<bool> {
    let Some(terms) = Terms::of(types, precision) else { return Ok(false) };
    let &Matrices { m, k, n, .. } = product;
    let [left, right] = operands.map(|it| it.held.filter(|it| it.may_be_held()));
    // A cached operand becomes the right one: the transposed product is computed if only the left operand can be
    // cached.
    let is_turned = left.is_some() && right.is_none();
    let keeper = right.or(left);
    let sizes = if is_turned { [n, k, m] } else { [m, k, n] };
    let units = units.unwrap_or_else(|| Units::of_product(isa, terms, sizes, keeper.is_some()));
    if [product.count(), m, k, n].contains(&0) || !units.multiplies(terms) {
        return Ok(false);
    }
    let side = |operand: usize, steps: [isize; 2], dtype: DType| {
        let first = operands[operand].address as *const u8;
        let matrix = Matrix { first, steps: steps.map(|it| it * dtype.size() as isize) };
        let packing = Packing::new(isa, dtype, terms.planes()[operand], (operand == 1) != is_turned);
        Side { matrix: if is_turned { matrix.transposed() } else { matrix }, dtype, packing }
    };
    let [a, b] = [side(0, product.a, types.a), side(1, product.b, types.b)];
    let steps = product.out.map(|it| it * types.out.size() as isize);
    let matrix = Matrix { first: to.first, steps };
    let element_sizes = types.all().map(|it| it.size() as isize);
    let places = |it: usize| {
        let mut at = product.offsets(it);
        at.iter_mut().zip(element_sizes).for_each(|(at, size)| *at *= size);
        if is_turned {
            at.swap(0, 1);
        }
        at
    };
    let (left, right, matrix, terms) = match is_turned {
        true => (b, a, matrix.transposed(), terms.turned()),
        false => (a, b, matrix, terms),
    };
    let [m, k, n] = sizes;
    let batch = product.count();
    let is_same = product.is_same(if is_turned { 0 } else { 1 });
    // SAFETY: `product`'s offsets and strides address live operand elements by this function's contract, and `units` is
    // either detected on this machine or given.
    unsafe {
        let kept = keeper.and_then(|it| Kept::of(it, right, [k, n], 1));
        let of_kept = kept.as_ref().map(|it| it.packed.as_ref());
        if of_kept.is_some_and(|it| it.is_none()) {
            return Ok(false);
        }
        let out = Out { matrix, dtype: types.out, isa };
        let product = Product { units, terms, sizes, left, right, out, accumulate: false };
        let parts = to.parts.as_ref().map(|it| (it, is_turned));
        let packed = product.pack(&(0..batch), is_same, places, [false, kept.is_some()], parts)?;
        let packed = [packed[0].as_ref(), of_kept.flatten().or(packed[1].as_ref())];
        if let Terms::Floats(planes) = terms {
            let range = |operand: usize, side: Side, sizes: [usize; 2], count: usize| match packed[operand] {
                Some(it) => it.range,
                None => range_of(isa, side.dtype, side.matrix, sizes, count, |it| places(it)[operand]),
            };
            let of_right = range(1, right, [k, n], if is_same { 1 } else { batch });
            if !of_right.allows(planes[1]) {
                return Ok(false);
            }
            let of_left = range(0, left, [m, k], batch);
            if !of_left.allows(planes[0]) || !of_left.allows_products(of_right) {
                return Ok(false);
            }
        }
        product.multiply(0..batch, places, packed.map(|it| it.map(Packed::panels)), parts)?;
    }
    Ok(true)
}
