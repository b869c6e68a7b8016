//! The instruction of the processor.

use super::super::kernel::{Columns, Kernel, Terms, Unit};
use super::super::tiles::WORDS;
use super::{Vector, run};
use crate::isa::is_of_amd;
use ms_core::error::{Code, Error, warn};
use std::arch::x86_64::{
    __cpuid_count, __m512, _mm512_castps_si512, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_storeu_ps,
};
use std::mem::transmute;
use std::sync::OnceLock;

/// The vectors of the processor.
pub struct Processor;

impl Unit for Processor {
    unsafe fn start() -> Self {
        Self
    }

    fn kernel(_: Terms) -> Kernel<Self> {
        with_instruction
    }
}

/// [`run`] with the instruction.
///
/// # Safety
/// As [`run`].
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn with_instruction(
    _: &mut Processor,
    rows: *const u32,
    columns: Columns<'_>,
    is_first: bool,
    to: *mut u32,
    step: isize,
) {
    // SAFETY: the caller's contract is the same.
    unsafe { run::<__m512>(rows, columns, is_first, to, step) }
}

impl Vector for __m512 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: by the caller's contract, as below.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_loadu_ps(from.cast()) }
    }

    #[inline(always)]
    unsafe fn splat(from: *const u32) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_set1_ps(from.cast::<f32>().read()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(to.cast(), self) };
    }

    #[inline(always)]
    unsafe fn dot(self, a: Self, b: Self) -> Self {
        // SAFETY: as above; both are vectors of the same bits.
        unsafe {
            let [a, b] = [a, b].map(|it| transmute(_mm512_castps_si512(it)));
            _mm512_dpbf16_ps(self, a, b)
        }
    }
}

/// Whether this machine has the instruction, and multiplies faster by it than by widened operands: AMD's processors
/// multiply as many pairs at once as numbers of f32. On a Xeon that has the instruction it takes twice as long as a
/// multiply-add, so that nothing is gained. A processor with AVX-512 is asked.
///
/// The answer takes some instructions that trap in virtual machines, and is remembered.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        let has = is_of_amd() && has_instruction();
        if has && !is_right() {
            let message = "products do not use AVX-512 BF16 of this processor, which multiplies wrongly";
            warn(Error::new(Code::Backend, message));
            return false;
        }
        has
    })
}

fn has_instruction() -> bool {
    __cpuid_count(7, 0).eax >= 1 && __cpuid_count(7, 1).eax & 1 << 5 != 0
}

/// Compares sums whose bits depend on their order, and on numbers below the normal ones, with the model's.
fn is_right() -> bool {
    /// The sums of some words and of their products.
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    unsafe fn sums<V: Vector>(words: &[[u32; WORDS]; 3]) -> [u32; WORDS] {
        let mut sums = [0; WORDS];
        // SAFETY: vectors are those of arrays, and the caller's contract is the same.
        unsafe {
            let [sum, a, b] = words.each_ref().map(|it| V::load(it.as_ptr()));
            let splat = V::splat(words[1].as_ptr());
            sum.dot(a, b).dot(b, splat).store(sums.as_mut_ptr());
        }
        sums
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn of_processor(words: &[[u32; WORDS]; 3]) -> [u32; WORDS] {
        // SAFETY: the caller's contract is the same.
        unsafe { sums::<__m512>(words) }
    }

    let number = |it: usize| (it as u32 + 1).wrapping_mul(0x9e37_79b9);
    // Magnitudes from 2^-15 to 2, so that terms have bits of all weights.
    let near = |bits: u32| bits & 0x87ff_ffff | 0x3800_0000;
    (0..64).all(|round| {
        let mut words = [0, 1, 2].map(|of| std::array::from_fn(|it| number((round * 3 + of) * WORDS + it)));
        words[0] = words[0].map(near);
        words[1..].as_flattened_mut().iter_mut().for_each(|it| *it = near(*it) & 0xffff_0000 | near(*it << 16) >> 16);
        // A sum and a factor below the normal numbers.
        words[0][round % WORDS] = 0x0012_3456;
        words[1][(round + 1) % WORDS] = 0x0012_3f80;
        // SAFETY: the machine has the instructions.
        unsafe { of_processor(&words) == sums::<[u32; WORDS]>(&words) }
    })
}
