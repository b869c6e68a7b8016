//! Right operands in panels as wide as tiles, and products with them.

use super::{Attention, Matrices};
use crate::product::{Matrix, Shared, Tile, pack};
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, DType};

/// Maximum number of elements of all panels that stay in the first-level cache.
const NEAR: usize = 6 << 10;

/// Adjacent panels of a matrix: the rows of each are one after the other, and padded with zeros to its width.
#[derive(Clone, Copy)]
pub struct Panels {
    pub first: *const f32,
    /// The distance between panels in elements.
    pub step: usize,
    pub count: usize,
}

impl Panels {
    /// So many panels from one on, without their first rows.
    pub fn part(self, at: usize, count: usize, row: usize, tile: Tile<f32>) -> Self {
        debug_assert!(at + count <= self.count);
        Self { first: self.first.wrapping_add(at * self.step + row * tile.columns), count, ..self }
    }
}

/// The number of elements of the panels of a matrix `[k, n]`.
pub fn elements([k, n]: [usize; 2], tile: Tile<f32>) -> usize {
    n.next_multiple_of(tile.columns) * k
}

/// Packs a matrix `[k, n]`.
///
/// # Safety
/// Its elements are valid for reads, `to` has room for [all panels](elements), and the processor has the tile's
/// instruction set.
pub unsafe fn pack_into(matrix: Matrix<*const f32>, [k, n]: [usize; 2], tile: Tile<f32>, to: *mut f32) -> Panels {
    let (width, step) = (tile.columns, k * tile.columns);
    for (at, left) in (0..n).step_by(width).enumerate() {
        let to = to.wrapping_add(at * step);
        let lines = width.min(n - left);
        // SAFETY: by the caller's contract.
        unsafe {
            if lines == width {
                pack::<f32>(tile.turn, matrix.skip(0, left).transposed(), lines, k, to);
                continue;
            }
            to.write_bytes(0, step);
            for (row, column) in (0..k).flat_map(|row| (0..lines).map(move |column| (row, column))) {
                to.add(row * width + column).write(*matrix.skip(row, left + column).first);
            }
        }
    }
    Panels { first: to, step, count: n.div_ceil(width) }
}

/// The panels of several matrices of one size.
pub struct Packed {
    room: Array,
    /// The number of elements of a panel, and the number of panels of a matrix.
    step: usize,
    count: usize,
}

impl Packed {
    /// Those of row-major matrices `[k, n]`.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for them.
    pub fn new(of: &Matrices<'_>, [k, n]: [usize; 2], tile: Tile<f32>) -> Result<Self> {
        Self::strided(of, [k, n], [n as isize, 1], tile)
    }

    /// Those of the transposed matrices of row-major ones `[n, k]`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn transposed(of: &Matrices<'_>, [n, k]: [usize; 2], tile: Tile<f32>) -> Result<Self> {
        Self::strided(of, [k, n], [1, k as isize], tile)
    }

    fn strided(of: &Matrices<'_>, sizes: [usize; 2], steps: [isize; 2], tile: Tile<f32>) -> Result<Self> {
        assert_eq!(of.len, sizes.iter().product::<usize>(), "the matrices have these sizes");
        let (count, len) = (of.count(), elements(sizes, tile));
        // SAFETY: all elements are written below.
        let room = unsafe { Array::uninit(&[count * len], DType::F32)? };
        let first = Shared::new(room.device_ptr().cast::<f32>());
        threads::for_each(count, count * len / 2, |at| {
            let matrix = Matrix { first: of.at(at).as_ptr(), steps };
            // SAFETY: each matrix has its own part of the room, and all elements of these sizes.
            unsafe { pack_into(matrix, sizes, tile, first.get().wrapping_add(at * len)) };
        });
        Ok(Self { room, step: sizes[0] * tile.columns, count: sizes[1].div_ceil(tile.columns) })
    }

    /// The panels of a matrix.
    pub fn of(&self, place: usize) -> Panels {
        let first = place * self.step * self.count;
        debug_assert!(first + self.step * self.count <= self.room.numel());
        Panels { first: self.room.device_ptr().cast::<f32>().wrapping_add(first), step: self.step, count: self.count }
    }
}

/// Multiplies `m` rows with panels of so many rows: `to`, in rows that are a number of elements apart, becomes the
/// product, or has it added if it `resumes`.
///
/// # Safety
/// The operands have the elements, `to` has room for as many columns as the panels, is initialised if it resumes, and
/// overlaps no operand; the processor has the tile's instruction set.
pub unsafe fn multiply(
    tile: Tile<f32>,
    [m, terms]: [usize; 2],
    resumes: bool,
    a: Matrix<*const f32>,
    panels: Panels,
    (to, width): (*mut f32, usize),
) {
    let height = tile.height(m);
    let run = |top: usize, panel: usize| {
        let b = panels.first.wrapping_add(panel * panels.step);
        let to = to.wrapping_add(top * width + panel * tile.columns);
        let (sizes, a) = ([height.min(m - top), terms], a.skip(top, 0));
        // SAFETY: the caller's contract, for a part of the operands and of the result.
        unsafe { (tile.run)(sizes, resumes, a, (b, tile.columns as isize), (to, width as isize)) };
    };
    if terms * panels.count * tile.columns <= NEAR {
        (0..m).step_by(height).for_each(|top| (0..panels.count).for_each(|panel| run(top, panel)));
    } else {
        (0..panels.count).for_each(|panel| (0..m).step_by(height).for_each(|top| run(top, panel)));
    }
}

impl Attention<'_> {
    /// A number of columns, rounded up to whole panels.
    pub fn padded(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.tile.columns)
    }
}
