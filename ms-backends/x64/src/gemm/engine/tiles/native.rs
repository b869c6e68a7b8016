//! Runs the tile instructions of the processor.

use super::super::kernel::{REGISTER, ROWS, WORDS};
use super::{Emulated, Tiles};
use crate::isa::Isa;
use ms_ir::error::{Code, Error, warn};
use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// The registers, configured for this thread.
pub struct Native {
    /// Marks the registers as this thread's: the value is neither `Send` nor `Sync`.
    of_thread: PhantomData<*mut ()>,
}

/// The operand of `LDTILECFG`.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// The configuration of all eight registers in full size.
static CONFIG: Config = {
    let mut it = Config { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
    let mut register = 0;
    while register < 8 {
        it.bytes[register] = 4 * WORDS as u16;
        it.rows[register] = ROWS as u8;
        register += 1;
    }
    it
};

impl Tiles for Native {
    #[inline]
    unsafe fn configure() -> Self {
        // SAFETY: the processor has the instruction, and the system permits it, by this function's contract.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, readonly, preserves_flags)) };
        Self { of_thread: PhantomData }
    }

    #[inline(always)]
    fn zero<const D: usize>(&mut self) {
        // SAFETY: the registers stay configured while the value lives.
        unsafe { asm!("tilezero tmm{}", const D, options(nostack, nomem, preserves_flags)) };
    }

    #[inline(always)]
    unsafe fn load<const D: usize>(&mut self, from: *const u8, step: isize) {
        // SAFETY: the registers stay configured while the value lives, and the rows are valid for reads by this
        // function's contract.
        unsafe {
            asm!(
                "tileloadd tmm{d}, [{from} + {step}*1]",
                d = const D,
                from = in(reg) from,
                step = in(reg) step,
                options(nostack, readonly, preserves_flags),
            );
        }
    }

    #[inline(always)]
    unsafe fn store<const S: usize>(&mut self, to: *mut u8, step: isize) {
        // SAFETY: the registers stay configured while the value lives, and the rows are valid for writes by this
        // function's contract.
        unsafe {
            asm!(
                "tilestored [{to} + {step}*1], tmm{s}",
                s = const S,
                to = in(reg) to,
                step = in(reg) step,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    fn prefetch_l1(&self, at: *const u32) {
        // SAFETY: a prefetch never faults, whatever its address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }

    #[inline(always)]
    fn prefetch_l2(&self, at: *const u32) {
        // SAFETY: a prefetch never faults, whatever its address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
    }

    #[inline(always)]
    fn dot_pairs<const D: usize, const A: usize, const B: usize>(&mut self) {
        // SAFETY: the registers stay configured while the value lives, all with the same sizes.
        unsafe {
            asm!(
                "tdpbf16ps tmm{}, tmm{}, tmm{}",
                const D,
                const A,
                const B,
                options(nostack, nomem, preserves_flags),
            );
        }
    }

    #[inline(always)]
    fn dot_quads<const D: usize, const A: usize, const B: usize, const SIGNED_A: bool, const SIGNED_B: bool>(
        &mut self,
    ) {
        macro_rules! dot {
            ($name:literal) => {
                asm!(
                    concat!($name, " tmm{}, tmm{}, tmm{}"),
                    const D,
                    const A,
                    const B,
                    options(nostack, nomem, preserves_flags),
                )
            };
        }
        // SAFETY: the registers stay configured while the value lives, all with the same sizes.
        unsafe {
            match (SIGNED_A, SIGNED_B) {
                (true, true) => dot!("tdpbssd"),
                (true, false) => dot!("tdpbsud"),
                (false, true) => dot!("tdpbusd"),
                (false, false) => dot!("tdpbuud"),
            }
        }
    }
}

impl Drop for Native {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the processor has the instruction, as it has configured this value. Registers that stay in use would
        // be saved at every context switch.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}

/// Whether the process may use the registers, and the processor multiplies correctly with them.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        let has = Isa::Avx512Amx.is_supported();
        if has && !is_right() {
            let message = "products do not use the AMX unit of this processor, which multiplies wrongly";
            warn(Error::new(Code::Backend, message));
            return false;
        }
        has
    })
}

/// Compares a product of bf16 and one of bytes with the emulation. The sums are exact, and hence equal in any order.
fn is_right() -> bool {
    fn component_products<T: Tiles>() -> [[u32; REGISTER]; 2] {
        // Each word of bf16 has two integers from -8 to 7.
        let small = |it: usize| ((it % 16) as f32 - 8.0).to_bits() >> 16;
        let pairs: [u32; REGISTER] = std::array::from_fn(|it| small(it * 7) | small(it * 5 + it / 16) << 16);
        let bytes = pairs.map(|it| it.wrapping_mul(0x9e37_79b9));
        let mut results = [[0; REGISTER]; 2];
        let step = 4 * WORDS as isize;
        // SAFETY: no other registers are configured on this thread, and every row lies inside an array.
        unsafe {
            let mut state = T::configure();
            state.load::<1>(pairs.as_ptr().cast(), step);
            state.load::<2>(pairs.as_ptr().cast::<u8>().add(4 * WORDS), 0);
            state.zero::<0>();
            state.dot_pairs::<0, 1, 2>();
            state.dot_pairs::<0, 2, 1>();
            state.store::<0>(results[0].as_mut_ptr().cast(), step);
            state.load::<7>(bytes.as_ptr().cast(), step);
            state.dot_quads::<3, 7, 1, true, false>();
            state.dot_quads::<3, 1, 7, true, true>();
            state.store::<3>(results[1].as_mut_ptr().cast(), step);
        }
        results
    }
    component_products::<Native>() == component_products::<Emulated>()
}
