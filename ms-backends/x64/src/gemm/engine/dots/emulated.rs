//! Emulates the dot-product instruction in plain Rust, which defines the bits of results.

use super::super::kernel::WORDS;
#[cfg(any(test, feature = "emulation"))]
use super::super::kernel::{EngineState, Kernel, Split};
use super::super::kernel::{flushed, pair};
use super::Vector;
#[cfg(any(test, feature = "emulation"))]
use super::run;
use std::array::from_fn;

/// The emulated engine.
#[cfg(any(test, feature = "emulation"))]
pub struct Emulated;

#[cfg(any(test, feature = "emulation"))]
impl EngineState for Emulated {
    unsafe fn start() -> Self {
        Self
    }

    fn kernel(_: Split) -> Kernel<Self> {
        // SAFETY: the micro-panels and `to` are valid by the contract of `Kernel`, and plain Rust needs no instruction
        // set.
        |_, rows, columns, is_first, to, step| unsafe { run::<[u32; WORDS]>(rows, columns, is_first, to, step) }
    }
}

impl Vector for [u32; WORDS] {
    unsafe fn zero() -> Self {
        [0; WORDS]
    }

    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: `WORDS` words are valid for reads by this function's contract.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    unsafe fn splat(from: *const u32) -> Self {
        // SAFETY: the word is valid for reads by this function's contract.
        [unsafe { *from }; WORDS]
    }

    unsafe fn store(self, to: *mut u32) {
        // SAFETY: `WORDS` words are valid for writes by this function's contract.
        unsafe { to.cast::<Self>().write_unaligned(self) };
    }

    unsafe fn dot(self, a: Self, b: Self) -> Self {
        from_fn(|it| {
            let ([a, b], sum) = ([a[it], b[it]].map(pair), flushed(f32::from_bits(self[it])));
            let sum = flushed(a[1].mul_add(b[1], sum));
            flushed(a[0].mul_add(b[0], sum)).to_bits()
        })
    }
}
