//! Packs right operands into micro-panels as wide as tiles, and multiplies by them.

use super::{Matrices, Sizes};
use crate::library::scratch::Workspace;
use ms_x64::gemm::{Matrix, Shared, Tile, pack};
use ms_x64::threads;
use std::mem::MaybeUninit;

/// Maximum number of elements of micro-panels that stay in L1.
const NEAR: usize = 6 << 10;

/// Adjacent micro-panels of a matrix. The rows of each are contiguous, and zeros pad them to the width of a tile.
#[derive(Clone, Copy)]
pub struct Panels {
    pub first: *const f32,
    /// The distance between micro-panels in elements.
    pub step: usize,
    pub count: usize,
}

impl Panels {
    /// Returns `count` micro-panels from `at` on, without their first `row` rows.
    pub fn part(self, at: usize, count: usize, row: usize, tile: Tile<f32>) -> Self {
        debug_assert!(at + count <= self.count);
        Self { first: self.first.wrapping_add(at * self.step + row * tile.columns), count, ..self }
    }
}

/// Returns the number of elements of the micro-panels of a matrix `[k, n]`.
pub fn elements([k, n]: [usize; 2], tile: Tile<f32>) -> usize {
    n.next_multiple_of(tile.columns) * k
}

/// Packs a matrix `[k, n]`.
///
/// # Safety
/// The elements are valid for reads, `to` has room for [all micro-panels](elements), and the processor has the tile's
/// instruction set.
pub unsafe fn pack_into(matrix: Matrix<*const f32>, [k, n]: [usize; 2], tile: Tile<f32>, to: *mut f32) -> Panels {
    let (width, step) = (tile.columns, k * tile.columns);
    for (at, left) in (0..n).step_by(width).enumerate() {
        let to = to.wrapping_add(at * step);
        let lines = width.min(n - left);
        // SAFETY: columns `left..left + lines` and rows below `k` are elements of the matrix, and `to` has room for `k`
        // rows of `width` elements.
        unsafe {
            if lines == width {
                pack::<f32>(tile.transpose, matrix.skip(0, left).transposed(), lines, k, to);
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

/// The micro-panels of several matrices of one size.
pub struct Packed<'a> {
    room: &'a [MaybeUninit<f32>],
    /// The number of elements of a micro-panel; `count` is the number of micro-panels of a matrix.
    step: usize,
    count: usize,
}

impl<'a> Packed<'a> {
    /// Packs row-major matrices `[k, n]` into a workspace.
    pub fn new(of: &Matrices<'_>, [k, n]: [usize; 2], tile: Tile<f32>, workspace: &mut Workspace<'a>) -> Self {
        Self::strided(of, [k, n], [n as isize, 1], tile, workspace)
    }

    /// Packs the transposes of row-major matrices `[n, k]` into a workspace.
    pub fn transposed(of: &Matrices<'_>, [n, k]: [usize; 2], tile: Tile<f32>, workspace: &mut Workspace<'a>) -> Self {
        Self::strided(of, [k, n], [1, k as isize], tile, workspace)
    }

    fn strided(
        of: &Matrices<'_>,
        sizes: [usize; 2],
        steps: [isize; 2],
        tile: Tile<f32>,
        workspace: &mut Workspace<'a>,
    ) -> Self {
        assert_eq!(of.len, sizes.iter().product::<usize>(), "the matrices have these sizes");
        let (count, len) = (of.count(), elements(sizes, tile));
        let room = workspace.take::<f32>(count * len);
        let first = Shared::new(room.as_mut_ptr().cast::<f32>());
        threads::for_each(count, count * len / 2, |at| {
            let matrix = Matrix { first: of.at(at).as_ptr(), steps };
            // SAFETY: each matrix has `sizes` elements by the assertion, and its own `len` elements of the room.
            unsafe { pack_into(matrix, sizes, tile, first.get().wrapping_add(at * len)) };
        });
        Self { room, step: sizes[0] * tile.columns, count: sizes[1].div_ceil(tile.columns) }
    }

    /// Returns the micro-panels of a matrix.
    pub fn of(&self, matrix: usize) -> Panels {
        let first = matrix * self.step * self.count;
        debug_assert!(first + self.step * self.count <= self.room.len());
        Panels { first: self.room.as_ptr().cast::<f32>().wrapping_add(first), step: self.step, count: self.count }
    }
}

/// Multiplies `m` rows by micro-panels of `terms` rows. The product replaces `to`, whose rows are `width` elements
/// apart, or is accumulated into it if it `resumes`.
///
/// # Safety
/// The operands have these elements. `to` has room for all columns of the micro-panels, is initialised if it resumes,
/// and overlaps no operand. The processor has the tile's instruction set.
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
        // SAFETY: rows `top..top + height` are clipped to `m`, and the micro-panel and its columns of `to` exist by
        // this function's contract.
        unsafe { (tile.run)(sizes, resumes, a, (b, tile.columns as isize), (to, width as isize)) };
    };
    if terms * panels.count * tile.columns <= NEAR {
        (0..m).step_by(height).for_each(|top| (0..panels.count).for_each(|panel| run(top, panel)));
    } else {
        (0..panels.count).for_each(|panel| (0..m).step_by(height).for_each(|top| run(top, panel)));
    }
}

impl Sizes {
    /// Returns a number of columns, rounded up to whole micro-panels.
    pub fn padded(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.tile.columns)
    }
}
