//! Packs with AVX-512: a vector has the 16 words of a row of a tile register.
//!
//! If the elements of a row are not contiguous in memory, the words of columns are packed and the register is
//! transposed.

use super::super::kernel::{COMPONENT_WORDS, REGISTER, ROWS, WORDS};
use super::super::range::Range;
use super::{Element, MAX_COMPONENTS, PackPanel, SplitPairs};
use crate::codegen::LINE;
use crate::gemm::Matrix;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// An element type that is packed in vectors. The functions need AVX-512 F, BW, DQ and VL.
pub trait Words: Element {
    /// Packs the words of the first `elements` contiguous elements of one row or column, in all components; the rest is
    /// zero.
    ///
    /// # Safety
    /// The machine has the trait's instruction sets, and `elements` elements are valid for reads.
    unsafe fn pack_row<const P: usize>(from: *const Self, elements: usize, found: &mut Found) -> [__m512i; P];

    /// Packs one word of each of several contiguous rows or columns, in all components. The elements of a word are
    /// `step` elements apart. `sizes` are the numbers of elements of a word and of rows or columns that exist; the rest
    /// is zero.
    ///
    /// # Safety
    /// The machine has the trait's instruction sets, and the elements within `sizes` are valid for reads.
    unsafe fn pack_word<const P: usize>(
        from: *const Self,
        step: isize,
        sizes: [usize; 2],
        found: &mut Found,
    ) -> [__m512i; P];
}

impl Words for f32 {
    #[inline(always)]
    unsafe fn pack_row<const P: usize>(from: *const Self, elements: usize, found: &mut Found) -> [__m512i; P] {
        // SAFETY: the masks select the first `elements` elements only, which are readable, and the machine has AVX-512
        // by the trait's contract.
        unsafe {
            let first = _mm512_maskz_loadu_ps(mask(elements) as u16, from);
            let second = _mm512_maskz_loadu_ps(mask(elements.saturating_sub(WORDS)) as u16, from.wrapping_add(WORDS));
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
            let [even, odd] = [even, odd].map(|it| _mm512_permutex2var_ps(first, it, second));
            components(even, odd, found)
        }
    }

    #[inline(always)]
    unsafe fn pack_word<const P: usize>(
        from: *const Self,
        step: isize,
        [elements, lines]: [usize; 2],
        found: &mut Found,
    ) -> [__m512i; P] {
        // SAFETY: the masks select the existing `lines` of existing `elements` only, which are readable, and the
        // machine has AVX-512 by the trait's contract.
        unsafe {
            let [first, second] = of_both(lines, elements);
            let second = _mm512_maskz_loadu_ps(second, from.wrapping_offset(step));
            components(_mm512_maskz_loadu_ps(first, from), second, found)
        }
    }
}

/// The bits of bf16.
impl Words for u16 {
    #[inline(always)]
    unsafe fn pack_row<const P: usize>(from: *const Self, elements: usize, found: &mut Found) -> [__m512i; P] {
        // SAFETY: the mask selects the first `elements` elements only, which are readable, and the machine has AVX-512
        // by the trait's contract.
        unsafe {
            let words = _mm512_maskz_loadu_epi16(mask(elements) as u32, from.cast());
            found.add_pairs(words);
            [words; P]
        }
    }

    #[inline(always)]
    unsafe fn pack_word<const P: usize>(
        from: *const Self,
        step: isize,
        [elements, lines]: [usize; 2],
        found: &mut Found,
    ) -> [__m512i; P] {
        // SAFETY: the masks select the existing `lines` of existing `elements` only, which are readable, and the
        // machine has AVX-512 by the trait's contract.
        unsafe {
            let [first, second] = of_both(lines, elements);
            let first = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first, from.cast()));
            let second = _mm256_maskz_loadu_epi16(second, from.wrapping_offset(step).cast());
            let words = _mm512_or_si512(first, _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(second)));
            found.add_pairs(words);
            [words; P]
        }
    }
}

impl Words for u8 {
    #[inline(always)]
    unsafe fn pack_row<const P: usize>(from: *const Self, elements: usize, _: &mut Found) -> [__m512i; P] {
        // SAFETY: the mask selects the first `elements` elements only, which are readable, and the machine has AVX-512
        // by the trait's contract.
        unsafe { [_mm512_maskz_loadu_epi8(mask(elements), from.cast()); P] }
    }

    #[inline(always)]
    unsafe fn pack_word<const P: usize>(
        from: *const Self,
        step: isize,
        [elements, lines]: [usize; 2],
        _: &mut Found,
    ) -> [__m512i; P] {
        // SAFETY: `element < elements` and the mask selects the existing `lines` only, which are readable. The machine
        // has AVX-512 by the trait's contract.
        unsafe {
            let mut word = _mm512_setzero_si512();
            for element in (0..elements.min(Self::PER_WORD)).rev() {
                let from = from.wrapping_offset(element as isize * step).cast();
                let part = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask(lines) as u16, from));
                word = _mm512_or_si512(_mm512_slli_epi32::<8>(word), part);
            }
            [word; P]
        }
    }
}

/// The range of the packed elements for each vector lane, in the form of [`Range::from_scan`].
pub struct Found {
    below_lowest: __m512i,
    highest: __m512i,
}

impl Found {
    /// Returns the empty range.
    ///
    /// # Safety
    /// The machine has AVX-512 F, as for every function of this type.
    #[inline(always)]
    unsafe fn nothing() -> Self {
        // SAFETY: the machine has AVX-512 F by this function's contract.
        unsafe { Self { below_lowest: _mm512_set1_epi32(-1), highest: _mm512_setzero_si512() } }
    }

    /// Adds the bits of f32; zeros change nothing.
    #[inline(always)]
    unsafe fn add(&mut self, bits: __m512i) {
        // SAFETY: the machine has AVX-512 F by this type's contract.
        unsafe {
            let magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fff_ffff));
            self.below_lowest = _mm512_min_epu32(self.below_lowest, _mm512_sub_epi32(magnitude, _mm512_set1_epi32(1)));
            self.highest = _mm512_max_epu32(self.highest, magnitude);
        }
    }

    /// Adds pairs of bf16.
    #[inline(always)]
    unsafe fn add_pairs(&mut self, words: __m512i) {
        // SAFETY: the machine has AVX-512 F by this type's contract.
        unsafe {
            self.add(_mm512_slli_epi32::<16>(words));
            self.add(_mm512_and_si512(words, _mm512_set1_epi32(0xffff_0000_u32 as i32)));
        }
    }

    #[inline(always)]
    unsafe fn range(self) -> Range {
        // SAFETY: the machine has AVX-512 F by this type's contract.
        unsafe { Range::from_scan((_mm512_reduce_min_epu32(self.below_lowest), _mm512_reduce_max_epu32(self.highest))) }
    }
}

/// Returns a mask of the first `count` elements.
#[inline(always)]
fn mask(count: usize) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

/// Returns the masks of the rows or columns for both elements of a word; the mask of a missing element is empty.
#[inline(always)]
fn of_both(lines: usize, elements: usize) -> [u16; 2] {
    let lines = mask(lines) as u16;
    [if elements > 0 { lines } else { 0 }, if elements > 1 { lines } else { 0 }]
}

/// Splits pairs of f32 into the words of all components, and adds them to `found`.
///
/// # Safety
/// The machine has AVX-512 F, BW, DQ and VL.
#[inline(always)]
unsafe fn components<const P: usize>(mut first: __m512, mut second: __m512, found: &mut Found) -> [__m512i; P] {
    // SAFETY: the machine has the instruction sets by this function's contract.
    unsafe {
        found.add(_mm512_castps_si512(first));
        found.add(_mm512_castps_si512(second));
        let mut words = [_mm512_setzero_si512(); P];
        for (component, word) in words.iter_mut().enumerate() {
            // The rest after two components is exactly a bf16 number.
            let [a, b] = if component < 2 {
                [round(first), round(second)]
            } else {
                [_mm512_castps_si512(first), _mm512_castps_si512(second)]
            };
            first = _mm512_sub_ps(first, _mm512_castsi512_ps(a));
            second = _mm512_sub_ps(second, _mm512_castsi512_ps(b));
            *word = _mm512_or_si512(_mm512_srli_epi32::<16>(a), b);
        }
        words
    }
}

/// Rounds as the scalar [`round`](super::round) does.
///
/// # Safety
/// The machine has AVX-512 F.
#[inline(always)]
unsafe fn round(x: __m512) -> __m512i {
    // SAFETY: the machine has AVX-512 F by this function's contract.
    unsafe {
        let bits = _mm512_castps_si512(x);
        let is_odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), is_odd);
        _mm512_and_si512(sum, _mm512_set1_epi32(0xffff_0000_u32 as i32))
    }
}

/// Packs up to 16 rows or columns of one K block.
///
/// # Safety
/// The `lines` by `depth` elements are valid for reads, `to` has room for all components, and the machine has AVX-512
/// F, BW, DQ and VL.
#[inline(always)]
unsafe fn register<E: Words, const P: usize>(
    is_right: bool,
    from: Matrix<*const E>,
    [lines, depth]: [usize; 2],
    to: *mut u32,
    found: &mut Found,
) {
    let mut copy = MaybeUninit::<[E; 4 * REGISTER]>::uninit();
    let mut transposed = MaybeUninit::<[u32; MAX_COMPONENTS * REGISTER]>::uninit();
    let (copy, transposed) = (copy.as_mut_ptr().cast::<E>(), transposed.as_mut_ptr().cast::<u32>());
    let k_block = E::PER_WORD * WORDS;
    // SAFETY: only rows or columns below `lines` and K indices below `depth` are read. `copy` and `transposed` hold one
    // register in all components, and zero bytes are valid elements of every type.
    unsafe {
        let mut from = from;
        if !from.steps.contains(&1) {
            copy.write_bytes(0, ROWS * k_block);
            for line in 0..lines {
                (0..depth).for_each(|element| *copy.add(line * k_block + element) = *from.skip(line, element).first);
            }
            from = Matrix { first: copy, steps: [k_block as isize, 1] };
        }
        let by_words = from.steps[1] != 1;
        let in_order = by_words == is_right;
        let (words, component) = if in_order { (to, COMPONENT_WORDS) } else { (transposed, REGISTER) };
        for row in 0..ROWS {
            let of_row = match by_words {
                true => {
                    let first = row * E::PER_WORD;
                    let sizes = [depth.saturating_sub(first), lines];
                    E::pack_word::<P>(from.skip(0, first).first, from.steps[1], sizes, found)
                }
                false => E::pack_row::<P>(from.skip(row, 0).first, if row < lines { depth } else { 0 }, found),
            };
            for (number, of_component) in of_row.into_iter().enumerate() {
                _mm512_storeu_si512(words.add(number * component + row * WORDS).cast(), of_component);
            }
        }
        if !in_order {
            (0..P).for_each(|component| {
                transpose(transposed.add(component * REGISTER), to.add(component * COMPONENT_WORDS))
            });
        }
    }
}

/// Transposes the words of a register.
///
/// # Safety
/// `from` is readable and `to` writable for a register, and the machine has AVX-512 F.
#[inline(always)]
unsafe fn transpose(from: *const u32, to: *mut u32) {
    /// Number of words of a 128-bit lane, across which shuffles do not move words.
    const PART: usize = 4;
    // SAFETY: all offsets are below `ROWS * WORDS`, the size of both registers.
    unsafe {
        for first in (0..WORDS).step_by(PART) {
            let mut rows = [_mm512_setzero_si512(); PART];
            for (at, row) in rows.iter_mut().enumerate() {
                // Lane `p` of a vector comes from row `4 p + at`.
                let from = from.add(at * WORDS + first);
                let part = |it: usize| _mm_loadu_si128(from.add(it * PART * WORDS).cast());
                *row = _mm512_castsi128_si512(part(0));
                *row = _mm512_inserti32x4::<1>(*row, part(1));
                *row = _mm512_inserti32x4::<2>(*row, part(2));
                *row = _mm512_inserti32x4::<3>(*row, part(3));
            }
            let [a, b, c, d] = rows;
            let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
            let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
            let to = to.add(first * WORDS);
            _mm512_storeu_si512(to.cast(), _mm512_unpacklo_epi64(low[0], low[1]));
            _mm512_storeu_si512(to.add(WORDS).cast(), _mm512_unpackhi_epi64(low[0], low[1]));
            _mm512_storeu_si512(to.add(2 * WORDS).cast(), _mm512_unpacklo_epi64(high[0], high[1]));
            _mm512_storeu_si512(to.add(3 * WORDS).cast(), _mm512_unpackhi_epi64(high[0], high[1]));
        }
    }
}

/// [`PackPanel`] with AVX-512.
///
/// # Safety
/// The elements are valid for reads, `to` has room for all K blocks, and the machine has AVX-512 F, BW, DQ and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn panel<E: Words, const P: usize>(
    is_right: bool,
    from: Matrix<*const u8>,
    lines: usize,
    depth: usize,
    mut to: *mut u32,
) -> Range {
    let from = Matrix { first: from.first.cast::<E>(), steps: from.steps.map(|it| it / size_of::<E>() as isize) };
    let k_block = E::PER_WORD * WORDS;
    // SAFETY: the machine has AVX-512 F by this function's contract.
    let mut found = unsafe { Found::nothing() };
    for start in (0..depth).step_by(k_block) {
        prefetch_l2(from.skip(0, start + k_block), [lines, depth.saturating_sub(start + k_block).min(k_block)]);
        for half in 0..2 {
            let sizes = [lines.saturating_sub(half * ROWS).min(ROWS), (depth - start).min(k_block)];
            // SAFETY: `sizes` selects existing elements of this half and K block, and `to` has room for the K block.
            unsafe {
                register::<E, P>(is_right, from.skip(half * ROWS, start), sizes, to.add(half * REGISTER), &mut found)
            };
        }
        // SAFETY: `to` has room for the `P` components of every K block, so the sum is at most one past the end.
        to = unsafe { to.add(P * COMPONENT_WORDS) };
    }
    // SAFETY: the machine has AVX-512 F by this function's contract.
    unsafe { found.range() }
}

/// Prefetches the elements of a K block into L2 if rows or columns are contiguous. L1 may have too few ways: rows whose
/// stride is a power of two fall into the same cache sets.
#[inline(always)]
fn prefetch_l2<E>(from: Matrix<*const E>, [lines, depth]: [usize; 2]) {
    let (from, rows, elements) = match from.steps {
        [_, 1] => (from, lines, depth),
        [1, _] => (from.transposed(), depth, lines),
        _ => return,
    };
    for row in 0..rows {
        let row = from.skip(row, 0).first.cast::<i8>();
        for at in (0..elements * size_of::<E>()).step_by(LINE) {
            // SAFETY: a prefetch never faults, whatever its address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(row.wrapping_add(at)) };
        }
    }
}

/// Returns the [`PackPanel`] for an element type.
pub fn pack_panel<E: Words, const P: usize>() -> PackPanel {
    panel::<E, P>
}

/// [`SplitPairs`] with AVX-512.
///
/// # Safety
/// The elements are valid for reads, there is room for the words, and the machine has AVX-512 F, BW, DQ and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn pairs<const P: usize>(from: *const f32, step: isize, pairs: usize, to: *mut u32, component: usize) {
    for at in (0..pairs).step_by(WORDS) {
        // SAFETY: `at + WORDS <= pairs`, as `pairs` is a multiple of `WORDS`: all elements of the vectors exist, and so
        // does room for their words.
        unsafe {
            let words = f32::pack_word::<P>(from.add(at), step, [f32::PER_WORD, WORDS], &mut Found::nothing());
            for (number, of_component) in words.into_iter().enumerate() {
                _mm512_storeu_si512(to.add(number * component + at).cast(), of_component);
            }
        }
    }
}

/// Returns the [`SplitPairs`] into `P` components.
pub fn split_pairs<const P: usize>() -> SplitPairs {
    pairs::<P>
}
