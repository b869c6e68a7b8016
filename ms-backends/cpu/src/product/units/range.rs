//! The range of magnitudes of operands, which decides whether the unit may multiply them.
//!
//! Products of planes have no meaning for infinities and nans, as `inf * 0` is nan. The unit takes numbers below
//! 2^-126 for zeros: those of which a lower plane would be one lose bits, and so do products of operands that are small
//! both.

use crate::isa::Isa;
use crate::product::Matrix;
use crate::product::panels::{Place, keep};
use crate::threads;
use ms_core::tensor::{DType, Storage};
use std::sync::atomic::{AtomicU32, Ordering};

/// The bits of the smallest magnitude that rounds to an infinity of bf16.
const INFINITE: u32 = 0x7f7f_8000;

/// The least exponent of the product of the largest magnitudes. What is lost of a term is less than 2^-125, and so less
/// than 2^-29 of that product.
const LEAST_PRODUCT: i32 = -96;

/// The bits of a power of two.
const fn exponent(of: i32) -> u32 {
    ((of + 127) as u32) << 23
}

/// The extreme magnitudes of a matrix, as bits of f32.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    /// The smallest that is not zero; the greatest number if there is none.
    lowest: u32,
    highest: u32,
}

impl Range {
    /// That of no elements.
    pub const EMPTY: Self = Self { lowest: u32::MAX, highest: 0 };

    /// That of magnitudes: the smallest one minus one, which makes zero the greatest number, and the greatest one.
    pub fn of_found((below_lowest, highest): (u32, u32)) -> Self {
        Self { lowest: below_lowest.saturating_add(1), highest }
    }

    /// Whether an operand of this range may be split into so many planes.
    pub fn allows(self, planes: usize) -> bool {
        // All bits of what the planes represent are those of normal numbers.
        let least = match planes {
            1 => exponent(-126),
            2 => exponent(-110),
            _ => exponent(-102),
        };
        self.highest < INFINITE && self.lowest >= least
    }

    /// Whether products of operands of these ranges are large enough.
    pub fn allows_products(self, other: Self) -> bool {
        let highest = [self, other].map(|it| (it.highest >> 23) as i32 - 127);
        self.highest == 0 || other.highest == 0 || highest[0] + highest[1] >= LEAST_PRODUCT
    }

    /// Whether sums and differences of some elements of an operand of this range, and products of them with those of the other
    /// one, are as exact as the products of the elements: none is infinite, and what is lost of those that are close to zero
    /// is less than is rounded of a sum.
    pub fn allows_differences(self, other: Self) -> bool {
        const MOST: i32 = 96;
        let exponent = |of: Self| (of.highest >> 23) as i32 - 127;
        let [a, b] = [self, other].map(exponent);
        let is_zero = self.highest == 0 || other.highest == 0;
        a.max(b) <= MOST && (is_zero || (a.min(b) >= -MOST && (-MOST..=MOST).contains(&(a + b))))
    }

    /// That of the elements of both.
    pub fn and(self, other: Self) -> Self {
        Self { lowest: self.lowest.min(other.lowest), highest: self.highest.max(other.highest) }
    }
}

/// The range of matrices of f32 or bf16 with these sizes; `places` returns the offsets of their first elements in bytes,
/// as strides are.
///
/// # Safety
/// The elements are valid for reads, and the machine has the instruction set.
pub unsafe fn range_of(
    isa: Isa,
    dtype: DType,
    matrix: Matrix<*const u8>,
    sizes: [usize; 2],
    count: usize,
    place: impl Fn(usize) -> isize + Sync,
) -> Range {
    /// Number of elements of a chunk.
    const CHUNK: usize = 1 << 16;
    // Lines run along the shorter stride.
    let is_turned = matrix.steps[0].unsigned_abs() < matrix.steps[1].unsigned_abs();
    let (matrix, [lines, len]) = if is_turned { (matrix.transposed(), [sizes[1], sizes[0]]) } else { (matrix, sizes) };
    let scan = scan(isa, dtype);
    let (lowest, highest) = (AtomicU32::new(Range::EMPTY.lowest), AtomicU32::new(Range::EMPTY.highest));
    let many = (CHUNK / len.max(1)).clamp(1, lines.max(1));
    let chunks = lines.div_ceil(many);
    let matrix = crate::product::Shared::new(matrix);
    threads::for_each(count * chunks, count * lines * len / 8, |chunk| {
        let matrix = matrix.get().at(place(chunk / chunks));
        let first = chunk % chunks * many;
        let found = (first..lines.min(first + many)).fold(Range::EMPTY, |found, line| {
            let line = matrix.skip(line, 0);
            // SAFETY: as the caller's.
            found.and(unsafe { scan(line.first, len, line.steps[1]) })
        });
        lowest.fetch_min(found.lowest, Ordering::Relaxed);
        highest.fetch_max(found.highest, Ordering::Relaxed);
    });
    Range { lowest: lowest.into_inner(), highest: highest.into_inner() }
}

/// Elements of an operand: the first one, their number, and the block of memory that they are in, if slots may hold it.
pub type Elements<'a> = (*const u8, usize, Option<&'a Storage>);

/// The range of elements of an operand, which is kept while slots hold them.
///
/// # Safety
/// As [`range_of_row`]; the elements are in the block.
pub unsafe fn range_of_elements(isa: Isa, dtype: DType, (first, len, held): Elements<'_>) -> Range {
    // SAFETY: the caller's contract is the same.
    unsafe {
        match held {
            Some(block) => range_of_held(block, isa, dtype, first, len),
            None => range_of_row(isa, dtype, first, len),
        }
    }
}

/// The range of elements that follow one another.
///
/// # Safety
/// As [`range_of`].
unsafe fn range_of_row(isa: Isa, dtype: DType, first: *const u8, len: usize) -> Range {
    /// Number of elements of a line, which are the rows of a matrix.
    const LINE: usize = 1 << 12;
    let size = dtype.size() as isize;
    let lines = Matrix { first, steps: [LINE as isize * size, size] };
    let rest = lines.skip(len / LINE, 0);
    // SAFETY: the caller's contract is the same.
    unsafe {
        let of_lines = range_of(isa, dtype, lines, [len / LINE, LINE], 1, |_| 0);
        of_lines.and(range_of(isa, dtype, rest, [1, len % LINE], 1, |_| 0))
    }
}

/// The range of elements of a block of memory, which is kept.
struct KeptRange {
    of: Place,
    range: Range,
}

/// [`range_of_row`] of elements of a block, which is kept while slots hold that.
///
/// # Safety
/// As [`range_of_row`]; the elements are in the block.
unsafe fn range_of_held(block: &Storage, isa: Isa, dtype: DType, first: *const u8, len: usize) -> Range {
    let of = Place::of(block, Matrix { first, steps: [0, dtype.size() as isize] }, [1, len], dtype);
    // SAFETY: the caller's contract is the same.
    let range = || unsafe { range_of_row(isa, dtype, first, len) };
    let kept = keep(block, 0, |it: &KeptRange| it.of == of, |_| Ok(KeptRange { of, range: range() }));
    kept.map_or_else(range, |it| it.range)
}

/// The range of a line of elements, which are a number of bytes apart.
///
/// # Safety
/// The elements are valid for reads, and the machine has the instruction set.
type Scan = unsafe fn(first: *const u8, len: usize, step: isize) -> Range;

fn scan(isa: Isa, dtype: DType) -> Scan {
    let [plain, avx2, avx512] = if dtype == DType::BF16 { scans::<u16>() } else { scans::<u32>() };
    match isa {
        Isa::Avx512 => avx512,
        Isa::Avx2 => avx2,
        Isa::Interp => plain,
    }
}

/// [`Scan`] for every CPU, with AVX2, and with AVX-512.
fn scans<B: Bits>() -> [Scan; 3] {
    #[cfg(target_arch = "x86_64")]
    return [line::<B>, avx2::<B>, avx512::<B>];
    #[cfg(not(target_arch = "x86_64"))]
    [line::<B>; 3]
}

/// The bits of an element.
trait Bits: Copy {
    /// Those of the same number as f32.
    fn of_f32(self) -> u32;
}

impl Bits for u32 {
    #[inline(always)]
    fn of_f32(self) -> u32 {
        self
    }
}

impl Bits for u16 {
    #[inline(always)]
    fn of_f32(self) -> u32 {
        u32::from(self) << 16
    }
}

/// [`Scan`] for every CPU, and with the features of functions that it is inlined into.
#[inline(always)]
unsafe fn line<B: Bits>(first: *const u8, len: usize, step: isize) -> Range {
    let range = |bits: B| {
        let magnitude = bits.of_f32() & 0x7fff_ffff;
        // Zero becomes the greatest number.
        (magnitude.wrapping_sub(1), magnitude)
    };
    let and = |(lowest, highest): (u32, u32), bits: B| {
        let it = range(bits);
        (lowest.min(it.0), highest.max(it.1))
    };
    let start = (u32::MAX, 0);
    let found = if step == size_of::<B>() as isize {
        // SAFETY: by the caller's contract.
        unsafe { std::slice::from_raw_parts(first.cast::<B>(), len) }.iter().copied().fold(start, and)
    } else {
        // SAFETY: by the caller's contract.
        let element = |at: usize| unsafe { first.wrapping_offset(at as isize * step).cast::<B>().read() };
        (0..len).map(element).fold(start, and)
    };
    Range::of_found(found)
}

#[cfg(target_arch = "x86_64")]
macro_rules! vector_scans {
    ($($name:ident, $features:literal;)*) => {$(
        #[target_feature(enable = $features)]
        unsafe fn $name<B: Bits>(first: *const u8, len: usize, step: isize) -> Range {
            // SAFETY: the caller's contract is the same.
            unsafe { line::<B>(first, len, step) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
vector_scans! {
    avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx2";
    avx2, "avx2";
}
