//! Finds the range of an operand's magnitudes, which decides whether a matrix engine may multiply it.
//!
//! Component products are undefined for infinities and NaNs, as `inf * 0` is NaN. The engine flushes subnormals (below
//! 2^-126) to zero. So elements whose low split component would be subnormal lose bits, and so do products of two small
//! operands.

use crate::gemm::Matrix;
use crate::gemm::panels::{PackedKey, cache};
use crate::isa::{Isa, Vectors};
use crate::threads;
use ms_ir::data::{DType, Storage};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of the smallest magnitude that rounds to infinity in bf16.
const INFINITE: u32 = 0x7f7f_8000;

/// Minimum exponent of the product of the largest magnitudes. Flushing loses less than 2^-125 of a product, which is
/// less than 2^-29 of that largest product.
const MIN_PRODUCT_EXPONENT: i32 = -96;

/// Returns the bits of a power of two.
const fn exponent(of: i32) -> u32 {
    ((of + 127) as u32) << 23
}

/// The smallest and the largest magnitude of a matrix, as bits of f32.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    /// The smallest nonzero magnitude; `u32::MAX` if there is none.
    lowest: u32,
    highest: u32,
}

impl Range {
    /// The range of a matrix without elements.
    pub const EMPTY: Self = Self { lowest: u32::MAX, highest: 0 };

    /// Returns the range for the minimum of `magnitude - 1`, which wraps to `u32::MAX` for zero, and the maximum
    /// magnitude.
    pub fn from_scan((below_lowest, highest): (u32, u32)) -> Self {
        Self { lowest: below_lowest.saturating_add(1), highest }
    }

    /// Whether operands of this range may be split into this number of components.
    pub fn allows(self, components: usize) -> bool {
        // Every bit of every split component must belong to a normal number.
        let least = match components {
            1 => exponent(-126),
            2 => exponent(-110),
            _ => exponent(-102),
        };
        self.highest < INFINITE && self.lowest >= least
    }

    /// Whether products of operands of these ranges are large enough for flushing to be negligible.
    pub fn allows_products(self, other: Self) -> bool {
        let highest = [self, other].map(|it| (it.highest >> 23) as i32 - 127);
        self.highest == 0 || other.highest == 0 || highest[0] + highest[1] >= MIN_PRODUCT_EXPONENT
    }

    /// Whether Winograd transforms keep the accuracy of direct products for operands of these ranges. No sum overflows,
    /// and what underflow loses is below the rounding of a sum.
    pub fn allows_winograd(self, other: Self) -> bool {
        const MOST: i32 = 96;
        let exponent = |of: Self| (of.highest >> 23) as i32 - 127;
        let [a, b] = [self, other].map(exponent);
        let is_zero = self.highest == 0 || other.highest == 0;
        a.max(b) <= MOST && (is_zero || (a.min(b) >= -MOST && (-MOST..=MOST).contains(&(a + b))))
    }

    /// Returns the range of the elements of both.
    pub fn and(self, other: Self) -> Self {
        Self { lowest: self.lowest.min(other.lowest), highest: self.highest.max(other.highest) }
    }
}

/// Returns the range of a batch of f32 or bf16 matrices of these sizes. `offset` returns the byte offset of a matrix;
/// strides are in bytes.
///
/// # Safety
/// The elements are valid for reads, and the machine has the instruction set.
pub unsafe fn range_of(
    isa: Isa,
    dtype: DType,
    matrix: Matrix<*const u8>,
    sizes: [usize; 2],
    count: usize,
    offset: impl Fn(usize) -> isize + Sync,
) -> Range {
    /// Number of elements of a chunk.
    const CHUNK: usize = 1 << 16;
    // Each scan runs along the shorter stride.
    let is_transposed = matrix.steps[0].unsigned_abs() < matrix.steps[1].unsigned_abs();
    let (matrix, [lines, len]) =
        if is_transposed { (matrix.transposed(), [sizes[1], sizes[0]]) } else { (matrix, sizes) };
    let scan = scan(isa, dtype);
    let (lowest, highest) = (AtomicU32::new(Range::EMPTY.lowest), AtomicU32::new(Range::EMPTY.highest));
    let many = (CHUNK / len.max(1)).clamp(1, lines.max(1));
    let chunks = lines.div_ceil(many);
    let matrix = crate::gemm::Shared::new(matrix);
    threads::for_each(count * chunks, count * lines * len / 8, |chunk| {
        let matrix = matrix.get().at(offset(chunk / chunks));
        let first = chunk % chunks * many;
        let found = (first..lines.min(first + many)).fold(Range::EMPTY, |found, line| {
            let line = matrix.skip(line, 0);
            // SAFETY: `line` is below `lines`, so its `len` elements are valid for reads by this function's contract.
            found.and(unsafe { scan(line.first, len, line.steps[1]) })
        });
        lowest.fetch_min(found.lowest, Ordering::Relaxed);
        highest.fetch_max(found.highest, Ordering::Relaxed);
    });
    Range { lowest: lowest.into_inner(), highest: highest.into_inner() }
}

/// Contiguous elements of an operand: the first one, their number, and the parameter storage that contains them, if
/// any.
pub type Elements<'a> = (*const u8, usize, Option<&'a Storage>);

/// Returns the range of an operand's elements, cached in the parameter storage if there is one.
///
/// # Safety
/// The elements are valid for reads and lie in the storage, and the machine has the instruction set.
pub unsafe fn range_of_elements(isa: Isa, dtype: DType, (first, len, held): Elements<'_>) -> Range {
    // SAFETY: the elements are valid for reads, and lie in `block`, by this function's contract.
    unsafe {
        match held {
            Some(block) => range_of_held(block, isa, dtype, first, len),
            None => range_of_row(isa, dtype, first, len),
        }
    }
}

/// Returns the range of contiguous elements.
///
/// # Safety
/// The elements are valid for reads, and the machine has the instruction set.
unsafe fn range_of_row(isa: Isa, dtype: DType, first: *const u8, len: usize) -> Range {
    /// Number of elements that are scanned at once, as a row of a matrix.
    const LINE: usize = 1 << 12;
    let size = dtype.size() as isize;
    let lines = Matrix { first, steps: [LINE as isize * size, size] };
    let rest = lines.skip(len / LINE, 0);
    // SAFETY: `len / LINE` rows of `LINE` elements and the remainder together are the `len` readable elements.
    unsafe {
        let of_lines = range_of(isa, dtype, lines, [len / LINE, LINE], 1, |_| 0);
        of_lines.and(range_of(isa, dtype, rest, [1, len % LINE], 1, |_| 0))
    }
}

/// The range of elements of a parameter storage, cached there.
struct CachedRange {
    key: PackedKey,
    range: Range,
}

/// Returns the range of contiguous elements of a parameter storage, which caches it.
///
/// # Safety
/// The elements are valid for reads and lie in the storage, and the machine has the instruction set.
unsafe fn range_of_held(block: &Storage, isa: Isa, dtype: DType, first: *const u8, len: usize) -> Range {
    let key = PackedKey::new(block, Matrix { first, steps: [0, dtype.size() as isize] }, [1, len], dtype);
    // SAFETY: `first` points to `len` readable elements by this function's contract.
    let range = || unsafe { range_of_row(isa, dtype, first, len) };
    let cached = cache(block, 0, |it: &CachedRange| it.key == key, |_| Ok(CachedRange { key, range: range() }));
    cached.map_or_else(range, |it| it.range)
}

/// Returns the range of `len` elements that are `step` bytes apart.
///
/// # Safety
/// The elements are valid for reads, and the machine has the instruction set.
type Scan = unsafe fn(first: *const u8, len: usize, step: isize) -> Range;

fn scan(isa: Isa, dtype: DType) -> Scan {
    let [plain, avx2, avx512] = if dtype == DType::BF16 { scans::<u16>() } else { scans::<u32>() };
    match isa.vectors() {
        Vectors::Avx512 => avx512,
        Vectors::Avx2 => avx2,
        Vectors::Scalar => plain,
    }
}

/// Returns a [`Scan`] for every CPU, for AVX2, and for AVX-512.
fn scans<B: Bits>() -> [Scan; 3] {
    #[cfg(target_arch = "x86_64")]
    return [line::<B>, avx2::<B>, avx512::<B>];
    #[cfg(not(target_arch = "x86_64"))]
    [line::<B>; 3]
}

/// The bits of an element of f32 or bf16.
trait Bits: Copy {
    /// Converts to the bits of f32.
    fn to_f32_bits(self) -> u32;
}

impl Bits for u32 {
    #[inline(always)]
    fn to_f32_bits(self) -> u32 {
        self
    }
}

impl Bits for u16 {
    #[inline(always)]
    fn to_f32_bits(self) -> u32 {
        u32::from(self) << 16
    }
}

/// [`Scan`] for every CPU; inlined, it is compiled with its caller's target features.
#[inline(always)]
unsafe fn line<B: Bits>(first: *const u8, len: usize, step: isize) -> Range {
    let range = |bits: B| {
        let magnitude = bits.to_f32_bits() & 0x7fff_ffff;
        // Zero wraps to `u32::MAX`, so that the minimum ignores it.
        (magnitude.wrapping_sub(1), magnitude)
    };
    let and = |(lowest, highest): (u32, u32), bits: B| {
        let it = range(bits);
        (lowest.min(it.0), highest.max(it.1))
    };
    let start = (u32::MAX, 0);
    let found = if step == size_of::<B>() as isize {
        // SAFETY: `first` points to `len` contiguous elements, valid for reads by the contract of `Scan`.
        unsafe { std::slice::from_raw_parts(first.cast::<B>(), len) }.iter().copied().fold(start, and)
    } else {
        // SAFETY: `at < len`, and `len` elements that are `step` bytes apart are valid for reads by the contract of
        // `Scan`.
        let element = |at: usize| unsafe { first.wrapping_offset(at as isize * step).cast::<B>().read() };
        (0..len).map(element).fold(start, and)
    };
    Range::from_scan(found)
}

#[cfg(target_arch = "x86_64")]
macro_rules! vector_scans {
    ($($name:ident, $features:literal;)*) => {$(
        #[target_feature(enable = $features)]
        unsafe fn $name<B: Bits>(first: *const u8, len: usize, step: isize) -> Range {
            // SAFETY: the `len` elements are valid for reads by the contract of `Scan`.
            unsafe { line::<B>(first, len, step) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
vector_scans! {
    avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx2";
    avx2, "avx2";
}
