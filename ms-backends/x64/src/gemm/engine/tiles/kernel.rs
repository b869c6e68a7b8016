//! Micro-kernels on AMX tiles.

use super::super::kernel::{
    COMPONENT_WORDS, Columns, Kernel, LINE, PANEL_ROWS, REGISTER, ROWS, Split, WORDS, component_products,
};
use super::Tiles;
use std::mem::MaybeUninit;

/// Maximum number of tile multiplications between two stores of a tile register.
///
/// On some Xeon processors, the first store after about 140 multiplications without one stalls. A periodic dummy store
/// avoids the stall, and costs nothing on other processors.
const STORE_INTERVAL: usize = 96;

/// A buffer for the dummy store, aligned to cache lines.
#[repr(align(64))]
struct DummyStore(MaybeUninit<[u32; REGISTER]>);

/// Returns the micro-kernel for this split.
pub fn kernel<T: Tiles>(split: Split) -> Kernel<T> {
    match split {
        Split::Floats([3, 3]) => run::<T, Bf16Dot, 3, 3>,
        Split::Floats([2, 2]) => run::<T, Bf16Dot, 2, 2>,
        Split::Floats([3, _]) => run::<T, Bf16Dot, 3, 1>,
        Split::Floats([_, 3]) => run::<T, Bf16Dot, 1, 3>,
        Split::Floats([2, _]) => run::<T, Bf16Dot, 2, 1>,
        Split::Floats([_, 2]) => run::<T, Bf16Dot, 1, 2>,
        Split::Floats(_) => run::<T, Bf16Dot, 1, 1>,
        Split::Bytes([true, true]) => run::<T, Int8Dot<true, true>, 1, 1>,
        Split::Bytes([true, false]) => run::<T, Int8Dot<true, false>, 1, 1>,
        Split::Bytes([false, true]) => run::<T, Int8Dot<false, true>, 1, 1>,
        Split::Bytes([false, false]) => run::<T, Int8Dot<false, false>, 1, 1>,
    }
}

/// The dot-product instruction.
trait Dot {
    fn dot<T: Tiles, const D: usize, const A: usize, const B: usize>(state: &mut T);
}

struct Bf16Dot;

impl Dot for Bf16Dot {
    #[inline(always)]
    fn dot<T: Tiles, const D: usize, const A: usize, const B: usize>(state: &mut T) {
        state.dot_pairs::<D, A, B>();
    }
}

struct Int8Dot<const SIGNED_A: bool, const SIGNED_B: bool>;

impl<const SIGNED_A: bool, const SIGNED_B: bool> Dot for Int8Dot<SIGNED_A, SIGNED_B> {
    #[inline(always)]
    fn dot<T: Tiles, const D: usize, const A: usize, const B: usize>(state: &mut T) {
        state.dot_quads::<D, A, B, SIGNED_A, SIGNED_B>();
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
    state: &mut T,
    mut a: *const u32,
    columns: Columns<'_>,
    is_first: bool,
    to: *mut u32,
    step: isize,
) {
    /// Bytes of a row of a register.
    const ROW: isize = 4 * WORDS as isize;
    /// Cache lines of a component of a K block.
    const LINES: usize = COMPONENT_WORDS / LINE;
    const { assert!(PANEL_ROWS == 2 * ROWS && COMPONENT_WORDS == 2 * REGISTER) };
    let mut dummy = DummyStore(MaybeUninit::uninit());
    let to: [*mut u8; 4] = std::array::from_fn(|it| {
        to.cast::<u8>().wrapping_offset((it / 2 * ROWS) as isize * step).wrapping_add(it % 2 * 4 * WORDS)
    });
    let row = (4 * columns.row) as isize;
    // SAFETY: `a` and `columns` have the words of every K block, and `to` has `PANEL_ROWS` rows and columns, by this
    // function's contract. `dummy` has room for a register. Prefetches never fault.
    unsafe {
        if is_first {
            state.zero::<0>();
            state.zero::<1>();
            state.zero::<2>();
            state.zero::<3>();
        } else {
            state.load::<0>(to[0], step);
            state.load::<1>(to[1], step);
            state.load::<2>(to[2], step);
            state.load::<3>(to[3], step);
        }
        for (number, &at) in columns.k_blocks.iter().enumerate() {
            let b = columns.first.add(at);
            // After the last K block, the next call often multiplies the same columns again.
            let next = columns.k_blocks.get(number + 1).unwrap_or(&columns.k_blocks[0]);
            let next = columns.first.wrapping_add(*next);
            let prefetch = columns.prefetch.first.wrapping_add(number * columns.prefetch.lines * LINE);
            let mut loaded = [usize::MAX; 2];
            for (stage, &[of_a, of_b]) in const { component_products(A, B) }.iter().enumerate() {
                if loaded[0] != of_a {
                    let component = a.add(of_a * COMPONENT_WORDS).cast::<u8>();
                    state.load::<4>(component, ROW);
                    state.load::<5>(component.add(4 * REGISTER), ROW);
                }
                if loaded[1] != of_b {
                    let component = b.add(of_b * columns.component);
                    state.load::<6>(component.cast(), row);
                    state.load::<7>(component.add(columns.register).cast(), row);
                }
                loaded = [of_a, of_b];
                // Shares: cache lines of rows, and register rows of columns.
                let part = |all: usize| {
                    let [start, end] = [stage, stage + 1].map(|it| it * all / const { component_products(A, B).len() });
                    start..end
                };
                part(A * LINES).for_each(|it| state.prefetch_l1(a.wrapping_add(A * COMPONENT_WORDS + it * LINE)));
                for it in part(B * ROWS) {
                    let at = next.wrapping_add(it / ROWS * columns.component + it % ROWS * columns.row);
                    state.prefetch_l1(at);
                    state.prefetch_l1(at.wrapping_add(columns.register));
                }
                part(columns.prefetch.lines).for_each(|it| state.prefetch_l2(prefetch.wrapping_add(it * LINE)));
                D::dot::<T, 0, 4, 6>(state);
                D::dot::<T, 1, 4, 7>(state);
                D::dot::<T, 2, 5, 6>(state);
                D::dot::<T, 3, 5, 7>(state);
            }
            if number % const { STORE_INTERVAL / (4 * component_products(A, B).len()) } == 0 {
                state.store::<4>(dummy.0.as_mut_ptr().cast(), ROW);
            }
            a = a.add(A * COMPONENT_WORDS);
        }
        state.store::<0>(to[0], step);
        state.store::<1>(to[1], step);
        state.store::<2>(to[2], step);
        state.store::<3>(to[3], step);
    }
}
