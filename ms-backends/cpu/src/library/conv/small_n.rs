//! Small-N GEMM without packing: rows of weights are read in place, since packing them would take longer than the
//! products.

use super::problem::Conv;
use super::vector::{Chains, Direct, OUTPUTS};
use crate::library::scratch::Scratch;
use ms_ir::error::Result;
use ms_x64::Isa;
use ms_x64::gemm::{EarlierSums, Shared};
use ms_x64::threads;

impl Conv {
    /// Multiplies the weights of a group by `width` im2col columns, which [slack](super::vector::SLACK) follows.
    /// Returns the rows of the result and their stride.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for sums.
    pub fn multiply_small_n<T: Direct>(
        &self,
        isa: Isa,
        weights: &[T],
        columns: &[T],
        width: usize,
    ) -> Result<(Scratch<T>, usize)> {
        let (filter, outputs) = (self.filter_len(), self.outputs);
        let loops = T::fitting(isa, |lanes| width.next_multiple_of(lanes));
        let step = width.next_multiple_of(loops.lanes);
        let mut vectors = Scratch::filled([0; 2], step / loops.lanes)?;
        vectors.iter_mut().zip((0..width).step_by(loops.lanes)).for_each(|(to, at)| *to = [at; 2]);
        let mut terms = Scratch::filled(0, filter)?;
        terms.iter_mut().enumerate().for_each(|(term, to)| *to = term * width);
        let mut rows = Scratch::filled(T::default(), outputs.saturating_mul(step))?;
        let to = Shared::new(rows.as_mut_ptr());
        // Small tasks balance the load.
        let per_task = outputs.div_ceil(4 * self.tasks()).next_multiple_of(OUTPUTS);
        threads::try_for_each(outputs.div_ceil(per_task), filter * outputs * step / 64, |task| {
            let first = task * per_task;
            let chains = Chains {
                vectors: &vectors,
                x: columns.as_ptr(),
                terms: &terms,
                weights: (weights[first * filter..].as_ptr(), [filter, 1]),
                outputs: per_task.min(outputs - first),
                to: (to.get().wrapping_add(first * step), step),
                earlier: EarlierSums::NONE,
            };
            // SAFETY: slack follows the columns, so whole vectors are readable. Each task has its own rows of the
            // result, with room for whole vectors.
            unsafe { chains.compute(&loops) }
        })?;
        Ok((rows, step))
    }
}
