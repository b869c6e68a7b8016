//! Micro-kernels on AMX tiles.

use super::super::kernel::{Columns, Kernel, LINE, Terms, products};
use super::super::split::{PANEL, PLANE};
use super::{REGISTER, ROWS, Tiles, WORDS};
use std::mem::MaybeUninit;

/// Maximum number of tile multiplications between two stores of a tile register.
///
/// On some Xeon processors, the first store after about 140 multiplications without one stalls. A periodic dummy store
/// avoids the stall, and costs nothing on other processors.
const AWAKE: usize = 96;

/// A buffer for the dummy store, aligned to cache lines.
#[repr(align(64))]
struct Unused(MaybeUninit<[u32; REGISTER]>);

/// Returns the micro-kernel for these terms.
pub fn kernel<T: Tiles>(terms: Terms) -> Kernel<T> {
    match terms {
        Terms::Floats([3, 3]) => run::<T, Pairs, 3, 3>,
        Terms::Floats([2, 2]) => run::<T, Pairs, 2, 2>,
        Terms::Floats([3, _]) => run::<T, Pairs, 3, 1>,
        Terms::Floats([_, 3]) => run::<T, Pairs, 1, 3>,
        Terms::Floats([2, _]) => run::<T, Pairs, 2, 1>,
        Terms::Floats([_, 2]) => run::<T, Pairs, 1, 2>,
        Terms::Floats(_) => run::<T, Pairs, 1, 1>,
        Terms::Bytes([true, true]) => run::<T, Quads<true, true>, 1, 1>,
        Terms::Bytes([true, false]) => run::<T, Quads<true, false>, 1, 1>,
        Terms::Bytes([false, true]) => run::<T, Quads<false, true>, 1, 1>,
        Terms::Bytes([false, false]) => run::<T, Quads<false, false>, 1, 1>,
    }
}

/// The dot-product instruction.
trait Dot {
    fn dot<T: Tiles, const D: usize, const A: usize, const B: usize>(unit: &mut T);
}

struct Pairs;

impl Dot for Pairs {
    #[inline(always)]
    fn dot<T: Tiles, const D: usize, const A: usize, const B: usize>(unit: &mut T) {
        unit.dot_pairs::<D, A, B>();
    }
}

struct Quads<const SIGNED_A: bool, const SIGNED_B: bool>;

impl<const SIGNED_A: bool, const SIGNED_B: bool> Dot for Quads<SIGNED_A, SIGNED_B> {
    #[inline(always)]
    fn dot<T: Tiles, const D: usize, const A: usize, const B: usize>(unit: &mut T) {
        unit.dot_quads::<D, A, B, SIGNED_A, SIGNED_B>();
    }
}

/// [`Kernel`] with sums in registers 0 to 3, a component of rows in 4 and 5, and a component of columns in 6 and 7.
///
/// Operands are in L2, from which tiles load slower than they multiply. So every component product prefetches a share
/// of the next K block.
///
/// # Safety
/// The micro-panel of rows has as many K blocks as the columns. All words are valid for reads, and `to` is valid for
/// reads and writes.
unsafe fn run<T: Tiles, D: Dot, const A: usize, const B: usize>(
    unit: &mut T,
    mut a: *const u32,
    columns: Columns<'_>,
    is_first: bool,
    to: *mut u32,
    step: isize,
) {
    /// Bytes of a row of a register.
    const ROW: isize = 4 * WORDS as isize;
    /// Cache lines of a component of a K block.
    const LINES: usize = PLANE / LINE;
    const { assert!(PANEL == 2 * ROWS && PLANE == 2 * REGISTER) };
    let mut unused = Unused(MaybeUninit::uninit());
    let to: [*mut u8; 4] = std::array::from_fn(|it| {
        to.cast::<u8>().wrapping_offset((it / 2 * ROWS) as isize * step).wrapping_add(it % 2 * 4 * WORDS)
    });
    let row = (4 * columns.row) as isize;
    // SAFETY: `a` and `columns` have the words of every K block, and `to` has `PANEL` rows and columns, by this
    // function's contract. `unused` has room for a register. Prefetches never fault.
    unsafe {
        if is_first {
            unit.zero::<0>();
            unit.zero::<1>();
            unit.zero::<2>();
            unit.zero::<3>();
        } else {
            unit.load::<0>(to[0], step);
            unit.load::<1>(to[1], step);
            unit.load::<2>(to[2], step);
            unit.load::<3>(to[3], step);
        }
        for (number, &at) in columns.groups.iter().enumerate() {
            let b = columns.first.add(at);
            // After the last K block, the next call often multiplies the same columns again.
            let next = columns.groups.get(number + 1).unwrap_or(&columns.groups[0]);
            let next = columns.first.wrapping_add(*next);
            let ahead = columns.ahead.first.wrapping_add(number * columns.ahead.lines * LINE);
            let mut loaded = [usize::MAX; 2];
            for (stage, &[of_a, of_b]) in const { products(A, B) }.iter().enumerate() {
                if loaded[0] != of_a {
                    let plane = a.add(of_a * PLANE).cast::<u8>();
                    unit.load::<4>(plane, ROW);
                    unit.load::<5>(plane.add(4 * REGISTER), ROW);
                }
                if loaded[1] != of_b {
                    let plane = b.add(of_b * columns.plane);
                    unit.load::<6>(plane.cast(), row);
                    unit.load::<7>(plane.add(columns.register).cast(), row);
                }
                loaded = [of_a, of_b];
                // Shares: cache lines of rows, and register rows of columns.
                let part = |all: usize| {
                    let [start, end] = [stage, stage + 1].map(|it| it * all / const { products(A, B).len() });
                    start..end
                };
                part(A * LINES).for_each(|it| unit.fetch(a.wrapping_add(A * PLANE + it * LINE)));
                for it in part(B * ROWS) {
                    let at = next.wrapping_add(it / ROWS * columns.plane + it % ROWS * columns.row);
                    unit.fetch(at);
                    unit.fetch(at.wrapping_add(columns.register));
                }
                part(columns.ahead.lines).for_each(|it| unit.fetch_ahead(ahead.wrapping_add(it * LINE)));
                D::dot::<T, 0, 4, 6>(unit);
                D::dot::<T, 1, 4, 7>(unit);
                D::dot::<T, 2, 5, 6>(unit);
                D::dot::<T, 3, 5, 7>(unit);
            }
            if number % const { AWAKE / (4 * products(A, B).len()) } == 0 {
                unit.store::<4>(unused.0.as_mut_ptr().cast(), ROW);
            }
            a = a.add(A * PLANE);
        }
        unit.store::<0>(to[0], step);
        unit.store::<1>(to[1], step);
        unit.store::<2>(to[2], step);
        unit.store::<3>(to[3], step);
    }
}
