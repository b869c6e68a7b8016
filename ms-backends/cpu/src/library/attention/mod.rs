//! Runs attention and its gradient in blocks of queries and keys (Dao et al., "FlashAttention", 2022).
//!
//! The weights of a block stay in a core's L2 cache, and the gradient recomputes them. They are `e^(s - most)`, with
//! the largest score of the query so far. A later block with a larger score rescales the earlier sums by
//! `e^(old - new)`. The sum of weights divides the result at the end (Milakov and Gimelshein, "Online normalizer
//! calculation for softmax", 2018). The order of all sums depends on the sizes only.

mod backward;
mod forward;
mod panels;
mod rows;
#[cfg(test)]
mod tests;

use super::elements;
use super::output::written;
use ms_ir::data::{Array, Attrs, DType, HostArray, Op, broadcast_shapes, try_room};
use ms_ir::error::Result;
use ms_ops::ops::host::dense;
use ms_ops::ops::{BLOCKED_ATTENTION, BLOCKED_ATTENTION_GRAD, BlockedAttentionAttrs};
use ms_x64::Isa;
use ms_x64::gemm::{Accumulator, Tile};
use rows::Rows;
use std::borrow::Cow;
use std::ops::Range;

/// Number of queries of a block: a multiple of the rows of tiles.
const QUERIES: usize = 48;

/// Runs attention or its gradient on f32, and writes its row-major results.
///
/// `None` for other ops and dtypes, and for a scale of scores that is not finite, as without features. A mask may have
/// bools or integers.
///
/// # Safety
/// The conditions of [`run`](super::run) hold.
pub unsafe fn run(isa: Isa, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Option<Result<()>> {
    let is_gradient = op == BLOCKED_ATTENTION_GRAD.op();
    if !(is_gradient || op == BLOCKED_ATTENTION.op()) {
        return None;
    }
    let (numbers, mask) = inputs.split_at(if is_gradient { 5 } else { 3 });
    let is_f32 = |it: &&Array| it.dtype() == DType::F32;
    if !numbers.iter().all(is_f32) || !mask.iter().all(|it| is_f32(it) || !it.dtype().is_float()) {
        return None;
    }
    let (_, [_, features]) = split(inputs[0].shape());
    if !BlockedAttentionAttrs::of(attrs).factor(features).is_finite() {
        return None;
    }
    let run = || {
        let dense = inputs.iter().map(|it| dense(it)).collect::<Result<Vec<_>>>()?;
        let numbers = |at: usize| elements::<f32>(&dense[at]);
        let mask = dense.get(if is_gradient { 5 } else { 3 });
        let attention = Attention::new(isa, attrs, [&dense[0], &dense[1], &dense[2]], mask)?;
        // SAFETY: the outputs are distinct row-major arrays of f32 that nothing else accesses, by this function's
        // contract.
        let mut results = outputs.iter().map(|it| unsafe { written::<f32>(it) });
        let mut result = || results.next().expect("the type rule gives the results of the op");
        match is_gradient {
            true => attention.backward([numbers(3), numbers(4)], [result(), result(), result()]),
            false => attention.forward(result()),
        }
    };
    Some(run())
}

/// An operand: a batch of matrices, which several products may share.
struct Matrices<'a> {
    elements: &'a [f32],
    /// The number of elements of a matrix.
    len: usize,
    /// The index of the matrix of each product.
    matrix_indices: Vec<usize>,
}

impl Matrices<'_> {
    /// Returns the number of matrices.
    fn count(&self) -> usize {
        self.elements.len() / self.len.max(1)
    }

    /// Returns the matrix with this index.
    fn at(&self, matrix: usize) -> &[f32] {
        &self.elements[matrix * self.len..][..self.len]
    }

    /// Returns the matrix of a product.
    fn of(&self, product: usize) -> &[f32] {
        self.at(self.matrix_indices[product])
    }
}

/// The values of a mask, which excludes keys or changes scores.
enum MaskValues<'a> {
    /// Whether a query uses a key.
    Bools(&'a [bool]),
    /// Numbers that are added to the scores.
    Numbers(Cow<'a, [f32]>),
}

/// A mask for scores.
struct Mask<'a> {
    values: MaskValues<'a>,
    /// Strides between queries and between keys.
    steps: [usize; 2],
    /// The index of the first element for each product.
    first_elements: Vec<usize>,
}

/// The operands and sizes of attention.
struct Attention<'a> {
    tile: Tile<f32>,
    rows: &'static Rows,
    q: Matrices<'a>,
    k: Matrices<'a>,
    v: Matrices<'a>,
    mask: Option<Mask<'a>>,
    /// The number of products of the batch.
    batch: usize,
    queries: usize,
    keys: usize,
    /// The number of features of a query and of a key; `values` is the number of elements of a value.
    features: usize,
    values: usize,
    causal: bool,
    scale: f32,
}

/// Splits a shape into its batch axes and its last two axes.
fn split(shape: &[usize]) -> (&[usize], [usize; 2]) {
    let (outer, inner) = shape.split_at(shape.len() - 2);
    (outer, [inner[0], inner[1]])
}

/// Returns the index of each product's matrix in an operand whose batch axes `own` are broadcast to `batch`.
fn matrix_indices(batch: &[usize], own: &[usize]) -> Result<Vec<usize>> {
    let count = batch.iter().product();
    let mut matrix_indices = try_room(count)?;
    for at in 0..count {
        let (mut rest, mut matrix, mut step) = (at, 0, 1);
        for (axis, &size) in batch.iter().enumerate().rev() {
            let own = (axis + own.len()).checked_sub(batch.len()).map_or(1, |it| own[it]);
            matrix += rest % size % own * step;
            (rest, step) = (rest / size, step * own);
        }
        matrix_indices.push(matrix);
    }
    Ok(matrix_indices)
}

impl<'a> Mask<'a> {
    fn new(mask: &'a HostArray<'_>, batch: &[usize], [queries, keys]: [usize; 2]) -> Result<Self> {
        let mut shape = vec![1; 2usize.saturating_sub(mask.shape().len())];
        shape.extend_from_slice(mask.shape());
        let (outer, [rows, columns]) = split(&shape);
        let values = match mask.dtype() {
            DType::Bool => MaskValues::Bools(elements(mask)),
            DType::F32 => MaskValues::Numbers(elements(mask).into()),
            _ => MaskValues::Numbers(mask.scalars().into_iter().map(|it| it.as_f64() as f32).collect()),
        };
        let step = |own: usize, size: usize, step: usize| if own == 1 && size != 1 { 0 } else { step };
        let steps = [step(rows, queries, columns), step(columns, keys, 1)];
        let first_elements = matrix_indices(batch, outer)?.into_iter().map(|it| it * rows * columns).collect();
        Ok(Self { values, steps, first_elements })
    }

    /// Masks the scores of a query of a product for some keys.
    fn apply(&self, product: usize, query: usize, keys: Range<usize>, scores: &mut [f32]) {
        let first = self.first_elements[product] + query * self.steps[0] + keys.start * self.steps[1];
        let exclude = |it: &mut f32, is_used: bool| *it = if is_used { *it } else { f32::NEG_INFINITY };
        match (&self.values, self.steps[1]) {
            (MaskValues::Bools(values), 0) => scores.iter_mut().for_each(|it| exclude(it, values[first])),
            (MaskValues::Bools(values), _) => {
                scores.iter_mut().zip(&values[first..]).for_each(|(it, &is_used)| exclude(it, is_used));
            }
            (MaskValues::Numbers(values), 0) => scores.iter_mut().for_each(|it| *it += values[first]),
            (MaskValues::Numbers(values), _) => {
                scores.iter_mut().zip(&values[first..]).for_each(|(it, value)| *it += value);
            }
        }
    }
}

impl<'a> Attention<'a> {
    fn new(
        isa: Isa,
        attrs: &Attrs,
        [q, k, v]: [&'a HostArray<'_>; 3],
        mask: Option<&'a HostArray<'_>>,
    ) -> Result<Self> {
        let it = BlockedAttentionAttrs::of(attrs);
        let ((of_q, [queries, features]), (of_k, [keys, _])) = (split(q.shape()), split(k.shape()));
        let (of_v, [_, values]) = split(v.shape());
        let batch = broadcast_shapes(&broadcast_shapes(of_q, of_k)?, of_v)?;
        let matrices = |of: &'a HostArray<'_>, outer: &[usize], len: usize| {
            Ok(Matrices { elements: elements(of), len, matrix_indices: matrix_indices(&batch, outer)? })
        };
        Ok(Self {
            tile: f32::tile(isa),
            rows: Rows::for_isa(isa),
            q: matrices(q, of_q, queries * features)?,
            k: matrices(k, of_k, keys * features)?,
            v: matrices(v, of_v, keys * values)?,
            mask: mask.map(|it| Mask::new(it, &batch, [queries, keys])).transpose()?,
            batch: batch.iter().product(),
            queries,
            keys,
            features,
            values,
            causal: it.causal(),
            scale: it.factor(features) as f32,
        })
    }

    /// Returns the number of blocks of queries.
    fn blocks(&self) -> usize {
        self.queries.div_ceil(QUERIES)
    }

    /// Returns the queries of a block.
    fn block(&self, block: usize) -> Range<usize> {
        block * QUERIES..self.queries.min((block + 1) * QUERIES)
    }

    /// Returns how many keys, counted from the first, some queries use.
    fn keys_of(&self, queries: &Range<usize>) -> usize {
        if self.causal { self.keys.min(queries.end) } else { self.keys }
    }

    /// Applies the causal mask and the mask to scores, whose rows are `width` elements apart.
    fn exclude(&self, product: usize, queries: &Range<usize>, keys: &Range<usize>, scores: &mut [f32], width: usize) {
        for (query, scores) in queries.clone().zip(scores.chunks_mut(width)) {
            let scores = &mut scores[..keys.len()];
            if self.causal && query + 1 < keys.end {
                scores[(query + 1).saturating_sub(keys.start)..].fill(f32::NEG_INFINITY);
            }
            if let Some(mask) = &self.mask {
                mask.apply(product, query, keys.clone(), scores);
            }
        }
    }

    /// Writes the queries of a block, multiplied by the scale of scores.
    fn scaled(&self, product: usize, queries: &Range<usize>, to: &mut [f32]) {
        let from = &self.q.of(product)[queries.start * self.features..queries.end * self.features];
        to.iter_mut().zip(from).for_each(|(to, it)| *to = it * self.scale);
    }

    /// Estimates the nanoseconds of this number of products of the size of the scores.
    fn nanos(&self, products: usize) -> usize {
        let multiplied = self.batch * self.queries * self.keys * (self.features + self.values) / 2;
        multiplied * products / if self.causal { 64 } else { 32 }
    }
}
