//! Epilogues: kernels that run on parts of a result, each on the thread that has just computed it.

use super::Matrix;
use super::matrices::Matrices;
use crate::kernel::KernelCode;
use ms_core::error::Result;
use ms_core::exec::EpilogueWords;
use ms_core::tensor::{Array, DType};
use smallvec::SmallVec;
use std::ops::Range;

/// A kernel that computes with the result of a contraction.
#[derive(Clone, Copy)]
pub struct Epilogue<'a> {
    /// Its code.
    pub code: &'a dyn KernelCode,
    /// The block of a call on the whole result, but for its address.
    pub block: &'a [u64],
    /// What depends on the part.
    pub words: EpilogueWords,
}

/// The parts of the result of a contraction, each of which is in memory until its epilogues have read it.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    epilogues: &'a [Epilogue<'a>],
    /// The products that are computed.
    product: &'a Matrices,
    /// The type of the result.
    dtype: DType,
}

/// Rows and columns of a product.
#[derive(Clone, Debug)]
pub struct Part {
    /// The number of the product.
    pub product: usize,
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub columns: Range<usize>,
}

impl<'a> Parts<'a> {
    /// The parts of the result of these products, which has elements of `dtype`.
    pub fn new(epilogues: &'a [Epilogue<'a>], product: &'a Matrices, dtype: DType) -> Self {
        Self { epilogues, product, dtype }
    }

    /// Whether a part must have all columns of its rows.
    pub fn by_rows(&self) -> bool {
        self.epilogues.iter().any(|it| it.words.by_rows)
    }

    /// Computes a part by `compute`, which writes it to the matrix that it is given, with steps in elements; then runs
    /// the epilogues on it, on this thread.
    ///
    /// The order of terms is that of a row-major result in memory.
    ///
    /// # Safety
    /// `compute` writes all elements. The contract of the kernels' code for the whole result. The part has whole rows if
    /// it [must](Parts::by_rows).
    ///
    /// # Errors
    /// Those of `compute`; [`Code::Memory`](ms_core::Code::Memory) if there is no memory for the part.
    pub unsafe fn run(&self, part: &Part, compute: impl FnOnce(Matrix<*mut u8>) -> Result<()>) -> Result<()> {
        let Part { rows, columns, .. } = part;
        let [by_rows, by_columns] = self.product.axes;
        let steps = match (by_rows, by_columns) {
            (None, None) => [0, 0],
            (Some(_), None) => [1, 0],
            (None, Some(_)) => [0, 1],
            (Some(_), Some(_)) => [columns.len(), 1],
        };
        let elements = (rows.len() - 1) * steps[0] + (columns.len() - 1) * steps[1] + 1;
        // SAFETY: `compute` writes the elements before the kernels read them.
        let room = unsafe { Array::uninit(&[elements], self.dtype)? };
        let (first, steps) = (room.device_ptr(), steps.map(|it| it as isize));
        compute(Matrix { first, steps })?;
        for epilogue in self.epilogues {
            let block = self.block(epilogue, part, first as u64, steps);
            // SAFETY: the block is that of a part of the loops of the caller's contract.
            unsafe { epilogue.code.alone(&block).unwrap_or(epilogue.code).call(&block) };
        }
        Ok(())
    }

    /// The block of a kernel's call on a part with this address and these steps.
    fn block(&self, epilogue: &Epilogue<'_>, part: &Part, first: u64, steps: [isize; 2]) -> SmallVec<[u64; 64]> {
        let EpilogueWords { loops, axes, result, .. } = epilogue.words;
        let mut block: SmallVec<[u64; 64]> = SmallVec::from_slice(epilogue.block);
        self.product.indices(part.product, |axis, index| {
            if axis < axes {
                loops.restrict(&mut block, axis, index, 1);
            }
        });
        if let Some(result) = result {
            block[result] = first;
            block[result + 1..][..loops.loops()].fill(0);
        }
        let sides = [&part.rows, &part.columns];
        for ((axis, range), step) in self.product.axes.into_iter().zip(sides).zip(steps) {
            let Some(axis) = axis.filter(|it| *it < axes) else { continue };
            loops.restrict(&mut block, axis, range.start, range.len());
            if let Some(result) = result {
                block[result + 1 + axis] = (step * self.dtype.size() as isize) as u64;
            }
        }
        block
    }
}
