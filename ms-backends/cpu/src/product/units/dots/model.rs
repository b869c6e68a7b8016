//! A model of the instruction in plain Rust, which defines the bits of results.

#[cfg(test)]
use super::super::kernel::{Kernel, Terms, Unit};
use super::super::kernel::{flushed, pair};
use super::super::tiles::WORDS;
use super::Vector;
#[cfg(test)]
use super::run;
use std::array::from_fn;

/// Vectors that are computed.
#[cfg(test)]
pub struct Model;

#[cfg(test)]
impl Unit for Model {
    unsafe fn start() -> Self {
        Self
    }

    fn kernel(_: Terms) -> Kernel<Self> {
        // SAFETY: the caller's contract is the same.
        |_, rows, columns, is_first, to, step| unsafe { run::<[u32; WORDS]>(rows, columns, is_first, to, step) }
    }
}

impl Vector for [u32; WORDS] {
    unsafe fn zero() -> Self {
        [0; WORDS]
    }

    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: by the caller's contract.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    unsafe fn splat(from: *const u32) -> Self {
        // SAFETY: by the caller's contract.
        [unsafe { *from }; WORDS]
    }

    unsafe fn store(self, to: *mut u32) {
        // SAFETY: by the caller's contract.
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
