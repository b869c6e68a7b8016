//! Runs epilogues: kernels that read output tiles, on the thread that has just computed them.

use super::Matrix;
use super::matrices::Matrices;
use crate::kernel::KernelCode;
use ms_ir::TileArguments;
use ms_ir::data::{DType, Storage};
use ms_ir::error::Result;
use smallvec::SmallVec;
use std::ops::Range;

/// A kernel that reads the result of a contraction.
#[derive(Clone, Copy)]
pub struct Epilogue<'a> {
    /// The kernel's code.
    pub code: &'a dyn KernelCode,
    /// The argument block of a call on the whole result, without the result's address.
    pub arguments: &'a [u64],
    /// The words of the argument block that vary per output tile.
    pub words: TileArguments,
}

/// The output tiles of a contraction. A tile is materialised only until its epilogues have read it.
#[derive(Clone, Copy)]
pub struct OutputTiles<'a> {
    epilogues: &'a [Epilogue<'a>],
    /// The batch of GEMMs.
    product: &'a Matrices,
    /// The type of the result.
    dtype: DType,
}

/// An output tile: rows and columns of a product.
#[derive(Clone, Debug)]
pub struct OutputTile {
    /// The index of the product in the batch.
    pub product: usize,
    /// The rows.
    pub rows: Range<usize>,
    /// The columns.
    pub columns: Range<usize>,
}

impl<'a> OutputTiles<'a> {
    /// Returns the output tiles of these GEMMs, whose result has elements of `dtype`.
    pub fn new(epilogues: &'a [Epilogue<'a>], product: &'a Matrices, dtype: DType) -> Self {
        Self { epilogues, product, dtype }
    }

    /// Whether a tile must have all columns of its rows.
    pub fn by_rows(&self) -> bool {
        self.epilogues.iter().any(|it| it.words.by_rows)
    }

    /// Computes a tile by `compute`, then runs the epilogues on it on the calling thread. `compute` receives the matrix
    /// to write, with strides in elements.
    ///
    /// Reductions in epilogues have the order of a row-major result in memory.
    ///
    /// # Safety
    /// `compute` writes all elements. The conditions of the kernels' code hold for the whole result. The tile has whole
    /// rows if [`by_rows`](OutputTiles::by_rows) requires them.
    ///
    /// # Errors
    /// The errors of `compute`; [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the tile.
    pub unsafe fn run(&self, tile: &OutputTile, compute: impl FnOnce(Matrix<*mut u8>) -> Result<()>) -> Result<()> {
        let OutputTile { rows, columns, .. } = tile;
        let [by_rows, by_columns] = self.product.axes;
        let steps = match (by_rows, by_columns) {
            (None, None) => [0, 0],
            (Some(_), None) => [1, 0],
            (None, Some(_)) => [0, 1],
            (Some(_), Some(_)) => [columns.len(), 1],
        };
        let elements = (rows.len() - 1) * steps[0] + (columns.len() - 1) * steps[1] + 1;
        let room = Storage::uninit(elements * self.dtype.size())?;
        let (first, steps) = (room.device_ptr(), steps.map(|it| it as isize));
        compute(Matrix { first, steps })?;
        for epilogue in self.epilogues {
            let arguments = self.arguments(epilogue, tile, first as u64, steps);
            // SAFETY: the argument block restricts the loops of the whole result, for which this function's contract
            // holds, to the tile.
            unsafe { epilogue.code.single_threaded(&arguments).unwrap_or(epilogue.code).call(&arguments) };
        }
        Ok(())
    }

    /// Returns the argument block of a kernel's call on a tile with this address and these strides.
    fn arguments(
        &self,
        epilogue: &Epilogue<'_>,
        tile: &OutputTile,
        first: u64,
        steps: [isize; 2],
    ) -> SmallVec<[u64; 64]> {
        let TileArguments { loops, axes, result, .. } = epilogue.words;
        let mut arguments: SmallVec<[u64; 64]> = SmallVec::from_slice(epilogue.arguments);
        self.product.indices(tile.product, |axis, index| {
            if axis < axes {
                loops.restrict(&mut arguments, axis, index, 1);
            }
        });
        if let Some(result) = result {
            arguments[result] = first;
            arguments[result + 1..][..loops.loops()].fill(0);
        }
        let sides = [&tile.rows, &tile.columns];
        for ((axis, range), step) in self.product.axes.into_iter().zip(sides).zip(steps) {
            let Some(axis) = axis.filter(|it| *it < axes) else { continue };
            loops.restrict(&mut arguments, axis, range.start, range.len());
            if let Some(result) = result {
                arguments[result + 1 + axis] = (step * self.dtype.size() as isize) as u64;
            }
        }
        arguments
    }
}
