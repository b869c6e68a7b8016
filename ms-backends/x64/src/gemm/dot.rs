//! Computes dot products of long vectors: several chunks at once, each as an independent accumulation chain.

use super::Matrix;
use super::element::{Accumulator, PACK_WIDTH, Tile};
use super::pack::pack;
use ms_ir::data::Storage;
use ms_ir::error::Result;
use ms_ir::{CHUNK, PairwiseTree};

/// Number of elements that are summed at once.
pub const DOT_ELEMENTS: usize = PACK_WIDTH * CHUNK;

/// [`Chains`] for every CPU; inlined, it is compiled with its caller's target features.
///
/// # Safety
/// The operands have `PACK_WIDTH * CHUNK` elements.
#[inline(always)]
pub unsafe fn plain<W: Accumulator>(a: *const W, b: *const W) -> [W; PACK_WIDTH] {
    // SAFETY: both operands have `PACK_WIDTH * CHUNK` elements by this function's contract.
    let [a, b] = [a, b].map(|it| unsafe { std::slice::from_raw_parts(it.cast::<[W; PACK_WIDTH]>(), CHUNK) });
    let mut sums = [W::default(); PACK_WIDTH];
    for (a, b) in a.iter().zip(b) {
        for line in 0..PACK_WIDTH {
            sums[line] = a[line].fused(b[line], sums[line]);
        }
    }
    sums
}

/// Returns the dot product of a row `a` and a column `b`. `rest` returns the dot product of the elements from an index
/// on, a multiple of [`DOT_ELEMENTS`].
///
/// # Safety
/// The row and the column have `k` elements each, and the CPU has the tile's instruction set.
///
/// # Errors
/// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed chunks; the errors of `rest`.
pub unsafe fn dot<W: Accumulator>(
    tile: Tile<W>,
    k: usize,
    a: Matrix<*const W>,
    b: Matrix<*const W>,
    rest: impl FnOnce(usize) -> Result<W>,
) -> Result<W> {
    let room = Storage::uninit(2 * DOT_ELEMENTS * size_of::<W>())?;
    let a_room = room.device_ptr().cast::<W>();
    let b_room = a_room.wrapping_add(DOT_ELEMENTS);
    let chunks = |it: Matrix<*const W>, step: isize| Matrix { first: it.first, steps: [CHUNK as isize * step, step] };
    let summed = k / DOT_ELEMENTS * DOT_ELEMENTS;
    // The rest has fewer chunks than are summed at once, so that it counts as one odd chunk at the end.
    let tree = PairwiseTree::new(summed / CHUNK + usize::from(summed < k));
    let mut slots = [W::default(); usize::BITS as usize];
    for start in (0..summed).step_by(DOT_ELEMENTS) {
        let (a, b) = (chunks(a.skip(0, start), a.steps[1]), chunks(b.skip(start, 0), b.steps[0]));
        // SAFETY: `start + DOT_ELEMENTS <= summed <= k`, so both operands have `DOT_ELEMENTS` more elements, and each
        // half of `room` has room for them.
        let sums = unsafe {
            pack(tile.transpose, a, PACK_WIDTH, CHUNK, a_room);
            pack(tile.transpose, b, PACK_WIDTH, CHUNK, b_room);
            (tile.chains)(a_room, b_room)
        };
        sums.into_iter().enumerate().for_each(|(line, sum)| tree.push(start / CHUNK + line, &mut slots, sum));
    }
    if summed < k {
        tree.push(summed / CHUNK, &mut slots, rest(summed)?);
    }
    Ok(slots[0])
}
