//! Computes the gradients of attention.

use super::forward::GAP;
use super::panels::{Packed, elements, multiply, pack_into};
use super::rows::State;
use super::{Attention, Matrices, QUERIES, Sizes};
use crate::library::scratch::{self, Workspace, bytes_of};
use ms_ir::error::Result;
use ms_x64::gemm::{Matrix, Shared};
use ms_x64::threads;
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Number of tasks, enough to keep the threads of common machines busy. Every task sums its own gradients of keys and
/// values, so that no bit depends on the number of threads.
const TASKS: usize = 16;

/// Partial gradients of an operand: the parts of each product, one after another.
struct Parts {
    first: Shared<*mut f32>,
    /// The number of elements of all parts.
    len: usize,
    /// The number of parts of a product.
    count: usize,
    /// The row stride; `rows` is the number of rows of a part.
    width: usize,
    rows: usize,
}

impl Parts {
    /// Takes zeros of a workspace, which outlives the parts.
    fn zeros(products: usize, [count, rows, width]: [usize; 3], workspace: &mut Workspace<'_>) -> Self {
        let len = products * count * rows * width;
        let room = workspace.take::<f32>(len);
        room.fill(MaybeUninit::new(0.0));
        Self { first: Shared::new(room.as_mut_ptr().cast::<f32>()), len, count, width, rows }
    }

    /// Returns the first element of a part of a product.
    fn at(&self, product: usize, part: usize) -> *mut f32 {
        self.first.get().wrapping_add((product * self.count + part) * self.rows * self.width)
    }

    /// Sums the parts of all products that share a matrix of an operand with `columns` columns.
    ///
    /// # Safety
    /// Nothing writes the parts meanwhile.
    unsafe fn add_up(&self, of: &Matrices<'_>, columns: usize, out: &mut [f32]) {
        if out.is_empty() {
            return;
        }
        let to = Shared::new(out.as_mut_ptr());
        threads::for_each(of.count(), self.len / 4, |matrix| {
            // SAFETY: each matrix has its own `len` elements of `out`.
            let to = unsafe { from_raw_parts_mut(to.get().add(matrix * of.len), of.len) };
            to.fill(0.0);
            let products = (0..of.matrix_indices.len()).filter(|&it| of.matrix_indices[it] == matrix);
            for (product, part) in products.flat_map(|it| (0..self.count).map(move |part| (it, part))) {
                // SAFETY: the part has `rows * width` elements, which nothing writes by this function's contract.
                let from = unsafe { from_raw_parts(self.at(product, part), self.rows * self.width) };
                for (to, from) in to.chunks_exact_mut(columns).zip(from.chunks_exact(self.width)) {
                    to.iter_mut().zip(from).for_each(|(to, it)| *to += it);
                }
            }
        });
    }
}

impl Sizes {
    /// Returns the number of tasks of a product.
    fn parts(&self) -> usize {
        TASKS.div_ceil(self.batch.max(1)).min(self.blocks())
    }

    /// Returns the bytes of the workspace for this number of matrices of keys and of values.
    pub fn backward_workspace(&self, [keys, values]: [usize; 2]) -> usize {
        let (features, parts) = (self.features, self.batch * self.parts());
        let [of_features, of_values] = [features, self.values].map(|it| self.padded(it));
        let packed = [
            keys * elements([features, self.keys], self.tile),
            values * elements([self.values, self.keys], self.tile),
            keys * elements([self.keys, features], self.tile),
        ];
        let sums =
            [parts * self.keys * of_features, parts * self.keys * of_values, self.batch * self.queries * features];
        packed.into_iter().chain(sums).map(bytes_of::<f32>).fold(0, usize::saturating_add)
    }
}

impl Attention<'_> {
    /// Computes the gradients of queries, keys and values from the result `y` and its gradient `g`.
    pub fn backward(
        &self,
        [y, g]: [&[f32]; 2],
        [of_q, of_k, of_v]: [&mut [f32]; 3],
        mut workspace: Workspace<'_>,
    ) -> Result<()> {
        let (tile, blocks) = (self.tile, self.blocks());
        let (features, values) = (self.features, self.values);
        if self.batch * self.queries * self.keys * values == 0 {
            [of_q, of_k, of_v].into_iter().for_each(|it| it.fill(0.0));
            return Ok(());
        }
        let parts = self.parts();
        let [of_features, of_values] = [features, values].map(|it| self.padded(it));
        let for_keys = Parts::zeros(self.batch, [parts, self.keys, of_features], &mut workspace);
        let for_values = Parts::zeros(self.batch, [parts, self.keys, of_values], &mut workspace);
        let for_queries = Parts::zeros(self.batch, [1, self.queries, features], &mut workspace);
        let keys_of_scores = Packed::transposed(&self.k, [self.keys, features], tile, &mut workspace);
        let values_of_gradients = Packed::transposed(&self.v, [self.keys, values], tile, &mut workspace);
        let keys_of_queries = Packed::new(&self.k, [self.keys, features], tile, &mut workspace);
        let width = self.padded(self.keys) + GAP;
        let columns = [[QUERIES, features], [QUERIES, values]].map(|it| elements(it, tile));
        let lens =
            [QUERIES * features, QUERIES * width, QUERIES * width, QUERIES * of_features, columns[0], columns[1]];
        threads::try_for_each(self.batch * parts, self.nanos(5), |task| {
            let (product, part) = (task / parts, task % parts);
            // Every buffer is written below before anything reads it.
            let room = scratch::uninit::<f32>(lens.iter().sum())?;
            let mut next = room.device_ptr().cast::<f32>();
            let [scaled, weights, slopes, through, panels_of_q, panels_of_g] = lens.map(|len| {
                let first = next;
                next = next.wrapping_add(len);
                first
            });
            let [k, v] = [self.k.matrix_indices[product], self.v.matrix_indices[product]];
            let (for_k, for_v) = (for_keys.at(product, part), for_values.at(product, part));
            // With a causal mask, the blocks of a task have different numbers of keys, which balances the tasks.
            for queries in (part..blocks).step_by(parts).map(|it| self.block(it)) {
                let (rows, used) = (queries.len(), self.keys_of(&queries));
                let count = used.div_ceil(tile.columns);
                let first = (product * self.queries + queries.start) * values;
                let [y, g] = [y, g].map(|it| &it[first..][..rows * values]);
                let mut state = State::<QUERIES>::new();
                let mut mean = [0.0; QUERIES];
                for (mean, (y, g)) in mean.iter_mut().zip(y.chunks_exact(values).zip(g.chunks_exact(values))) {
                    *mean = y.iter().zip(g).map(|(y, g)| y * g).sum();
                }
                // SAFETY: `room` has `lens` elements for the block's rows and for all columns of its micro-panels. Each
                // task has its own parts, and each block its own rows of the gradient of queries.
                unsafe {
                    self.scaled(product, &queries, from_raw_parts_mut(scaled, rows * features));
                    let left = Matrix::dense(scaled.cast_const(), features);
                    let right = keys_of_scores.of(k).part(0, count, 0, tile);
                    multiply(tile, [rows, features], false, left, right, (weights, width));
                    let scores = from_raw_parts_mut(weights, (rows - 1) * width + used);
                    self.exclude(product, &queries, &(0..used), scores, width);
                    self.rows.weigh([rows, used], (weights, width), &mut state);
                    let left_of_g = Matrix::dense(g.as_ptr(), values);
                    let right = values_of_gradients.of(v).part(0, count, 0, tile);
                    multiply(tile, [rows, values], false, left_of_g, right, (slopes, width));
                    let inverse = state.inverses();
                    self.rows.slope([rows, used], [weights, slopes], width, [&inverse, &mean]);
                    let left = Matrix::dense(slopes.cast_const(), width);
                    multiply(tile, [rows, used], false, left, keys_of_queries.of(k), (through, of_features));
                    let to = for_queries.at(product, 0).add(queries.start * features);
                    let to = from_raw_parts_mut(to, rows * features).chunks_exact_mut(features.max(1));
                    for (to, from) in
                        to.zip(from_raw_parts(through, rows * of_features).chunks_exact(of_features.max(1)))
                    {
                        to.iter_mut().zip(from).for_each(|(to, it)| *to = it * self.scale);
                    }
                    let dense_q = Matrix::dense(scaled.cast_const(), features);
                    let right = pack_into(dense_q, [rows, features], tile, panels_of_q);
                    multiply(tile, [used, rows], true, left.transposed(), right, (for_k, of_features));
                    let right = pack_into(left_of_g, [rows, values], tile, panels_of_g);
                    let left = Matrix::dense(weights.cast_const(), width);
                    multiply(tile, [used, rows], true, left.transposed(), right, (for_v, of_values));
                }
            }
            Ok(())
        })?;
        // SAFETY: all tasks have ended, so nothing writes the parts.
        unsafe {
            for_queries.add_up(&self.q, features, of_q);
            for_keys.add_up(&self.k, features, of_k);
            for_values.add_up(&self.v, values, of_v);
        }
        Ok(())
    }
}
