//! Computes the result of attention.

use super::panels::{Packed, elements, multiply};
use super::rows::State;
use super::{Attention, QUERIES, Sizes};
use crate::library::scratch::{self, Workspace, bytes_of};
use ms_ir::error::Result;
use ms_x64::gemm::{Matrix, Shared};
use ms_x64::threads;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Maximum number of keys of a block, a multiple of the columns of tiles.
const KEYS: usize = 1024;

/// Padding between rows of scores in elements, so that rows fall into different cache sets.
pub const GAP: usize = 16;

impl Sizes {
    /// Returns the bytes of the workspace for this number of matrices of keys and of values.
    pub fn forward_workspace(&self, [keys, values]: [usize; 2]) -> usize {
        let of_keys = elements([self.features, self.keys], self.tile);
        let of_values = elements([self.keys, self.values], self.tile);
        bytes_of::<f32>(keys * of_keys).saturating_add(bytes_of::<f32>(values * of_values))
    }
}

impl Attention<'_> {
    /// Computes the result.
    pub fn forward(&self, out: &mut [f32], mut workspace: Workspace<'_>) -> Result<()> {
        let (tile, blocks) = (self.tile, self.blocks());
        if self.keys * self.values == 0 {
            out.fill(0.0);
            return Ok(());
        }
        let keys = Packed::transposed(&self.k, [self.keys, self.features], tile, &mut workspace);
        let values = Packed::new(&self.v, [self.keys, self.values], tile, &mut workspace);
        let (of_scores, of_result) = (self.padded(KEYS.min(self.keys)) + GAP, self.padded(self.values));
        let lens = [QUERIES * self.features, QUERIES * of_scores, QUERIES * of_result];
        let out = Shared::new(out.as_mut_ptr());
        threads::try_for_each(self.batch * blocks, self.nanos(2), |task| {
            // Later queries may use more keys, so that their blocks run first.
            let (product, block) = (task % self.batch, blocks - 1 - task / self.batch);
            let queries = self.block(block);
            let (rows, used) = (queries.len(), self.keys_of(&queries));
            // Queries, scores and results are written below before anything reads them.
            let room = scratch::uninit::<f32>(lens.iter().sum())?;
            let scaled = room.device_ptr().cast::<f32>();
            let (scores, result) = (scaled.wrapping_add(lens[0]), scaled.wrapping_add(lens[0] + lens[1]));
            let (keys, values) = (keys.of(self.k.matrix_indices[product]), values.of(self.v.matrix_indices[product]));
            let mut state = State::<QUERIES>::new();
            // SAFETY: `room` has `lens` elements for the block's rows and for all columns of its micro-panels. Each
            // task has its own rows of the result.
            unsafe {
                self.scaled(product, &queries, from_raw_parts_mut(scaled, rows * self.features));
                result.write_bytes(0, rows * of_result);
                for start in (0..used).step_by(KEYS) {
                    let count = KEYS.min(used - start);
                    let panels = keys.part(start / tile.columns, count.div_ceil(tile.columns), 0, tile);
                    let left = Matrix::dense(scaled.cast_const(), self.features);
                    multiply(tile, [rows, self.features], false, left, panels, (scores, of_scores));
                    let of_block = from_raw_parts_mut(scores, (rows - 1) * of_scores + count);
                    self.exclude(product, &queries, &(start..start + count), of_block, of_scores);
                    self.rows.weigh([rows, count], (scores, of_scores), &mut state);
                    if start > 0 {
                        let result = from_raw_parts_mut(result, rows * of_result).chunks_exact_mut(of_result);
                        result.zip(state.factor).for_each(|(row, factor)| row.iter_mut().for_each(|it| *it *= factor));
                    }
                    let left = Matrix::dense(scores.cast_const(), of_scores);
                    let panels = values.part(0, values.count, start, tile);
                    multiply(tile, [rows, count], true, left, panels, (result, of_result));
                }
                let first = (product * self.queries + queries.start) * self.values;
                let to = from_raw_parts_mut(out.get().add(first), rows * self.values);
                let from = from_raw_parts(result, rows * of_result).chunks_exact(of_result);
                for ((to, from), inverse) in to.chunks_exact_mut(self.values).zip(from).zip(state.inverses()) {
                    to.iter_mut().zip(from).for_each(|(to, it)| *to = it * inverse);
                }
            }
            Ok(())
        })
    }
}
