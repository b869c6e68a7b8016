//! Emulates the tile registers in plain Rust, which defines the bits of results.

use super::super::kernel::{ROWS, WORDS};
use super::super::kernel::{flushed, pair};
use super::Tiles;
use std::array::from_fn;

/// Emulated registers.
pub struct Emulated {
    registers: [[[u32; WORDS]; ROWS]; 8],
}

impl Tiles for Emulated {
    unsafe fn configure() -> Self {
        Self { registers: [[[0; WORDS]; ROWS]; 8] }
    }

    fn zero<const D: usize>(&mut self) {
        self.registers[D] = [[0; WORDS]; ROWS];
    }

    unsafe fn load<const D: usize>(&mut self, from: *const u8, step: isize) {
        for (row, to) in self.registers[D].iter_mut().enumerate() {
            // SAFETY: row `row` of `ROWS` is valid for reads by this function's contract.
            *to = unsafe { from.wrapping_offset(row as isize * step).cast::<[u32; WORDS]>().read_unaligned() };
        }
    }

    unsafe fn store<const S: usize>(&mut self, to: *mut u8, step: isize) {
        for (row, &from) in self.registers[S].iter().enumerate() {
            // SAFETY: row `row` of `ROWS` is valid for writes by this function's contract.
            unsafe { to.wrapping_offset(row as isize * step).cast::<[u32; WORDS]>().write_unaligned(from) };
        }
    }

    fn prefetch_l1(&self, _: *const u32) {}

    fn prefetch_l2(&self, _: *const u32) {}

    fn dot_pairs<const D: usize, const A: usize, const B: usize>(&mut self) {
        let b = self.registers[B].map(|it| it.map(pair));
        for row in 0..ROWS {
            let mut sums = [[0f32; 2]; WORDS];
            for (a, b) in self.registers[A][row].map(pair).iter().zip(&b) {
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = [flushed(a[0].mul_add(b[0], sum[0])), flushed(a[1].mul_add(b[1], sum[1]))];
                }
            }
            for (word, [first, second]) in self.registers[D][row].iter_mut().zip(sums) {
                let sum = flushed(first + second);
                *word = flushed(flushed(f32::from_bits(*word)) + sum).to_bits();
            }
        }
    }

    fn dot_quads<const D: usize, const A: usize, const B: usize, const SIGNED_A: bool, const SIGNED_B: bool>(
        &mut self,
    ) {
        let b = self.registers[B].map(|it| it.map(quad::<SIGNED_B>));
        for row in 0..ROWS {
            for (a, b) in self.registers[A][row].map(quad::<SIGNED_A>).iter().zip(&b) {
                for (word, b) in self.registers[D][row].iter_mut().zip(b) {
                    let sum = a.iter().zip(b).fold(0i32, |sum, (a, b)| sum.wrapping_add(a * b));
                    *word = word.wrapping_add(sum as u32);
                }
            }
        }
    }
}

/// Widens the four bytes of a word.
fn quad<const SIGNED: bool>(word: u32) -> [i32; 4] {
    let bytes = word.to_le_bytes();
    from_fn(|it| if SIGNED { (bytes[it] as i8).into() } else { bytes[it].into() })
}
