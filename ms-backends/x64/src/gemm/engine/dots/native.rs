//! Runs the dot-product instruction of the processor.

use super::super::kernel::WORDS;
use super::super::kernel::{Columns, EngineState, Kernel, Split};
use super::{Vector, run};
use crate::isa::Isa;
use ms_ir::error::{Code, Error, warn};
use std::arch::x86_64::{
    __m512, _mm512_castps_si512, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};
use std::mem::transmute;
use std::sync::OnceLock;

/// The engine of the processor.
pub struct Native;

impl EngineState for Native {
    unsafe fn start() -> Self {
        Self
    }

    fn kernel(_: Split) -> Kernel<Self> {
        with_instruction
    }
}

/// Compiles [`run`] with the instruction.
///
/// # Safety
/// The micro-panel of rows has as many K blocks as the columns. All words are valid for reads, and `to` is valid for
/// reads and writes. The machine has the instructions.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn with_instruction(
    _: &mut Native,
    rows: *const u32,
    columns: Columns<'_>,
    is_first: bool,
    to: *mut u32,
    step: isize,
) {
    // SAFETY: the micro-panels and `to` are valid, and the machine has the instructions, by this function's contract.
    unsafe { run::<__m512>(rows, columns, is_first, to, step) }
}

impl Vector for __m512 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the machine has AVX-512 F by the trait's contract.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: `WORDS` words are valid for reads, and the machine has AVX-512 F, by the trait's contract.
        unsafe { _mm512_loadu_ps(from.cast()) }
    }

    #[inline(always)]
    unsafe fn splat(from: *const u32) -> Self {
        // SAFETY: the word is valid for reads, and the machine has AVX-512 F, by the trait's contract.
        unsafe { _mm512_set1_ps(from.cast::<f32>().read()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: `WORDS` words are valid for writes, and the machine has AVX-512 F, by the trait's contract.
        unsafe { _mm512_storeu_ps(to.cast(), self) };
    }

    #[inline(always)]
    unsafe fn dot(self, a: Self, b: Self) -> Self {
        // SAFETY: the machine has AVX512-BF16 by the trait's contract, and the transmuted vectors have the same size.
        unsafe {
            let [a, b] = [a, b].map(|it| transmute(_mm512_castps_si512(it)));
            _mm512_dpbf16_ps(self, a, b)
        }
    }
}

/// Whether the processor has the instruction and multiplies correctly with it.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        let has = Isa::Avx512Bf16.is_supported();
        if has && !is_right() {
            let message = "products do not use AVX-512 BF16 of this processor, which multiplies wrongly";
            warn(Error::new(Code::Backend, message));
            return false;
        }
        has
    })
}

/// Compares sums whose bits depend on the order, and on the flushing of subnormals, with the emulation.
fn is_right() -> bool {
    /// Returns some sums with products accumulated into them.
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    unsafe fn sums<V: Vector>(words: &[[u32; WORDS]; 3]) -> [u32; WORDS] {
        let mut sums = [0; WORDS];
        // SAFETY: every vector is loaded from or stored to an array of `WORDS` words, and the machine has the
        // instructions by this function's contract.
        unsafe {
            let [sum, a, b] = words.each_ref().map(|it| V::load(it.as_ptr()));
            let splat = V::splat(words[1].as_ptr());
            sum.dot(a, b).dot(b, splat).store(sums.as_mut_ptr());
        }
        sums
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn of_processor(words: &[[u32; WORDS]; 3]) -> [u32; WORDS] {
        // SAFETY: the machine has the instructions, as `is_present` has checked.
        unsafe { sums::<__m512>(words) }
    }

    let number = |it: usize| (it as u32 + 1).wrapping_mul(0x9e37_79b9);
    // Magnitudes from 2^-15 to 2, so that the bits of the products overlap.
    let near = |bits: u32| bits & 0x87ff_ffff | 0x3800_0000;
    (0..64).all(|round| {
        let mut words = [0, 1, 2].map(|of| std::array::from_fn(|it| number((round * 3 + of) * WORDS + it)));
        words[0] = words[0].map(near);
        words[1..].as_flattened_mut().iter_mut().for_each(|it| *it = near(*it) & 0xffff_0000 | near(*it << 16) >> 16);
        // A subnormal sum and a subnormal factor.
        words[0][round % WORDS] = 0x0012_3456;
        words[1][(round + 1) % WORDS] = 0x0012_3f80;
        // SAFETY: `is_present` has checked that the machine has the instructions.
        unsafe { of_processor(&words) == sums::<[u32; WORDS]>(&words) }
    })
}
