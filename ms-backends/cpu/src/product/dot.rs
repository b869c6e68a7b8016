//! Dot products of long vectors: several chunks at once, each a chain of its own.

use super::Matrix;
use super::ordered::CHUNK;
use super::pack::{LINES, pack};
use super::tile::{Tile, Wide};
use ms_core::error::Result;
use ms_core::tensor::{Array, Element};

/// Number of terms that are summed at once.
pub const TERMS: usize = LINES * CHUNK;

/// Computes for each of [`LINES`] lines the chain of `a[p * LINES + line] * b[p * LINES + line]` over all
/// `p` below [`CHUNK`] in order, each step rounded once, from +0.
///
/// # Safety
/// The operands have that many elements, and the CPU has the instruction set.
pub type Chains<W> = unsafe fn(a: *const W, b: *const W) -> [W; LINES];

/// [`Chains`] for every CPU, and with the features of functions that it is inlined into.
///
/// # Safety
/// As [`Chains`].
#[inline(always)]
pub unsafe fn plain<W: Wide>(a: *const W, b: *const W) -> [W; LINES] {
    // SAFETY: by the caller's contract.
    let [a, b] = [a, b].map(|it| unsafe { std::slice::from_raw_parts(it.cast::<[W; LINES]>(), CHUNK) });
    let mut sums = [W::default(); LINES];
    for (a, b) in a.iter().zip(b) {
        for line in 0..LINES {
            sums[line] = a[line].fused(b[line], sums[line]);
        }
    }
    sums
}

/// The sum of the products of the first terms of a row `a` and a column `b`, and the number of these
/// terms, a multiple of [`TERMS`].
///
/// # Safety
/// The row and the column have `k` elements each, and the CPU has the tile's instruction set.
///
/// # Errors
/// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for copies of some terms.
pub unsafe fn dot<W: Wide>(tile: Tile<W>, k: usize, a: Matrix<*const W>, b: Matrix<*const W>) -> Result<(W, usize)> {
    // SAFETY: both halves are written before they are read.
    let room = unsafe { Array::uninit(&[2 * TERMS], <W as Element>::DTYPE)? };
    let a_room = room.device_ptr().cast::<W>();
    let b_room = a_room.wrapping_add(TERMS);
    let chunks = |it: Matrix<*const W>, step: isize| Matrix { first: it.first, steps: [CHUNK as isize * step, step] };
    let mut sum: Option<W> = None;
    let terms = k / TERMS * TERMS;
    for start in (0..terms).step_by(TERMS) {
        let (a, b) = (chunks(a.skip(0, start), a.steps[1]), chunks(b.skip(start, 0), b.steps[0]));
        // SAFETY: there are at least that many terms left, and there is room for them.
        let sums = unsafe {
            pack(tile.turn, a, LINES, CHUNK, a_room);
            pack(tile.turn, b, LINES, CHUNK, b_room);
            (tile.chains)(a_room, b_room)
        };
        sum = sums.into_iter().fold(sum, |sum, it| Some(sum.map_or(it, |sum| sum + it)));
    }
    Ok((sum.unwrap_or_default(), terms))
}
