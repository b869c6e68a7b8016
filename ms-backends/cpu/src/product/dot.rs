//! Computes dot products of long vectors: several chunks at once, each as an independent accumulation chain.

use super::Matrix;
use super::ordered::CHUNK;
use super::pack::{LINES, pack};
use super::tile::{Tile, Wide};
use ms_core::error::Result;
use ms_core::tensor::{Array, Element};

/// Number of elements that are summed at once.
pub const TERMS: usize = LINES * CHUNK;

/// Computes [`LINES`] accumulation chains: for each `line`, the sum of `a[p * LINES + line] * b[p * LINES + line]` over
/// all `p` below [`CHUNK`] in order, from +0. Each step is rounded once.
///
/// # Safety
/// The operands have `LINES * CHUNK` elements, and the CPU has the instruction set.
pub type Chains<W> = unsafe fn(a: *const W, b: *const W) -> [W; LINES];

/// [`Chains`] for every CPU; inlined, it is compiled with its caller's target features.
///
/// # Safety
/// The operands have `LINES * CHUNK` elements.
#[inline(always)]
pub unsafe fn plain<W: Wide>(a: *const W, b: *const W) -> [W; LINES] {
    // SAFETY: both operands have `LINES * CHUNK` elements by this function's contract.
    let [a, b] = [a, b].map(|it| unsafe { std::slice::from_raw_parts(it.cast::<[W; LINES]>(), CHUNK) });
    let mut sums = [W::default(); LINES];
    for (a, b) in a.iter().zip(b) {
        for line in 0..LINES {
            sums[line] = a[line].fused(b[line], sums[line]);
        }
    }
    sums
}

/// Returns the dot product of the first elements of a row `a` and a column `b`, and their number, a multiple of
/// [`TERMS`].
///
/// # Safety
/// The row and the column have `k` elements each, and the CPU has the tile's instruction set.
///
/// # Errors
/// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for packed chunks.
pub unsafe fn dot<W: Wide>(tile: Tile<W>, k: usize, a: Matrix<*const W>, b: Matrix<*const W>) -> Result<(W, usize)> {
    // SAFETY: `pack` writes both halves before `chains` reads them.
    let room = unsafe { Array::uninit(&[2 * TERMS], <W as Element>::DTYPE)? };
    let a_room = room.device_ptr().cast::<W>();
    let b_room = a_room.wrapping_add(TERMS);
    let chunks = |it: Matrix<*const W>, step: isize| Matrix { first: it.first, steps: [CHUNK as isize * step, step] };
    let mut sum: Option<W> = None;
    let terms = k / TERMS * TERMS;
    for start in (0..terms).step_by(TERMS) {
        let (a, b) = (chunks(a.skip(0, start), a.steps[1]), chunks(b.skip(start, 0), b.steps[0]));
        // SAFETY: `start + TERMS <= terms <= k`, so both operands have `TERMS` more elements, and each half of `room`
        // has room for them.
        let sums = unsafe {
            pack(tile.turn, a, LINES, CHUNK, a_room);
            pack(tile.turn, b, LINES, CHUNK, b_room);
            (tile.chains)(a_room, b_room)
        };
        sum = sums.into_iter().fold(sum, |sum, it| Some(sum.map_or(it, |sum| sum + it)));
    }
    Ok((sum.unwrap_or_default(), terms))
}
