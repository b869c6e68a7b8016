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

use super::dense::DenseOperand;
use super::implementation::{Declined, Implementation, choose, require};
use super::scratch::Workspace;
use super::{LibraryCode, OpCall};
use ms_compile::exec::ArrayLayout;
use ms_ir::data::{Attrs, DType, Op, broadcast_shapes, try_room};
use ms_ir::error::Result;
use ms_ops::ops::{BLOCKED_ATTENTION, BLOCKED_ATTENTION_GRAD, BlockedAttentionAttrs, OpDef};
use ms_x64::Isa;
use ms_x64::gemm::{Accumulator, Tile};
use rows::Rows;
use std::ops::{Deref, Range};
use std::slice::from_raw_parts_mut;

/// Number of queries of a block: a multiple of the rows of tiles.
const QUERIES: usize = 48;

/// The ops.
pub const OPS: [&OpDef; 2] = [&BLOCKED_ATTENTION, &BLOCKED_ATTENTION_GRAD];

/// Attention or its gradient, on operands with these layouts.
struct Problem {
    isa: Isa,
    attrs: Attrs,
    operands: Vec<ArrayLayout>,
    is_gradient: bool,
}

impl Problem {
    /// Returns the number of operands without the mask.
    fn numbers(&self) -> usize {
        if self.is_gradient { 5 } else { 3 }
    }

    /// Accepts f32, and a mask of f32, bools or integers. A scale of scores that is not finite, as without features, is
    /// left to the formula.
    fn accepts(&self) -> Result<(), Declined> {
        let (numbers, mask) = self.operands.split_at(self.numbers());
        let is_f32 = |it: &ArrayLayout| it.dtype == DType::F32;
        require(numbers.iter().all(is_f32), || "an operand is not f32")?;
        require(mask.iter().all(|it| is_f32(it) || !it.dtype.is_float()), || "the mask has floats other than f32")?;
        let (_, [_, features]) = split(self.operands[0].layout.shape());
        let factor = BlockedAttentionAttrs::of(&self.attrs).factor(features);
        require(factor.is_finite(), || format!("the scale of scores is {factor}"))
    }
}

/// The implementations. `None` is the reference evaluation.
const IMPLEMENTATIONS: &[Implementation<Problem, Option<AttentionStep>>] = &[
    Implementation {
        name: "blocks",
        is_conditional: false,
        accepts: Problem::accepts,
        prepare: |it| AttentionStep::new(it).map(Some),
    },
    Implementation { name: "reference", is_conditional: false, accepts: |_| Ok(()), prepare: |_| Ok(None) },
];

/// Prepares attention or its gradient; `None` for other ops, and for operands that native code declines.
///
/// # Errors
/// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for lists of matrices.
pub fn prepare(isa: Isa, op: Op, attrs: &Attrs, operands: &[ArrayLayout]) -> Result<Option<Box<dyn LibraryCode>>> {
    let is_gradient = op == BLOCKED_ATTENTION_GRAD.op();
    if !(is_gradient || op == BLOCKED_ATTENTION.op()) {
        return Ok(None);
    }
    let problem = Problem { isa, attrs: attrs.clone(), operands: operands.to_vec(), is_gradient };
    let (codes, choice) = choose(IMPLEMENTATIONS, &problem)?;
    let step = codes.into_iter().flatten().next();
    Ok(step.map(|it| Box::new(AttentionStep { choice: choice.to_string(), ..it }) as Box<dyn LibraryCode>))
}

/// A prepared op.
struct AttentionStep {
    sizes: Sizes,
    is_gradient: bool,
    /// The operands: queries, keys and values; for the gradient, the result and its gradient; the mask.
    operands: Vec<DenseOperand>,
    /// The index of the matrix of each product in queries, keys and values.
    matrix_indices: [Vec<usize>; 3],
    mask: Option<MaskLayout>,
    /// The numbers of elements of the results.
    results: Vec<usize>,
    workspace: usize,
    choice: String,
}

impl AttentionStep {
    fn new(problem: &Problem) -> Result<Self> {
        let &Problem { isa, ref attrs, ref operands, is_gradient } = problem;
        let at = BlockedAttentionAttrs::of(attrs);
        let [q, k, v] = [0, 1, 2].map(|it| operands[it].layout.shape());
        let ((of_q, [queries, features]), (of_k, [keys, _])) = (split(q), split(k));
        let (of_v, [_, values]) = split(v);
        let batch = broadcast_shapes(&broadcast_shapes(of_q, of_k)?, of_v)?;
        let matrix_indices =
            [matrix_indices(&batch, of_q)?, matrix_indices(&batch, of_k)?, matrix_indices(&batch, of_v)?];
        let mask = operands.get(problem.numbers());
        let mask = mask.map(|it| MaskLayout::new(it, &batch, [queries, keys])).transpose()?;
        let sizes = Sizes {
            tile: f32::tile(isa),
            rows: Rows::for_isa(isa),
            batch: batch.iter().product(),
            queries,
            keys,
            features,
            values,
            causal: at.causal(),
            scale: at.factor(features) as f32,
        };
        let dense = |it: &ArrayLayout| match it.dtype {
            DType::Bool => DenseOperand::new::<bool>(it),
            _ => DenseOperand::new::<f32>(it),
        };
        let copies: Vec<DenseOperand> = operands.iter().map(dense).collect();
        let of_copies = copies.iter().map(DenseOperand::workspace::<f32>).fold(0, usize::saturating_add);
        let counts = [q, k].map(|it| it[..it.len() - 2].iter().product());
        let own = match is_gradient {
            true => sizes.backward_workspace([counts[1], split(v).0.iter().product()]),
            false => sizes.forward_workspace([counts[1], split(v).0.iter().product()]),
        };
        let results = match is_gradient {
            true => [q, k, v].map(|it| it.iter().product()).to_vec(),
            false => vec![sizes.batch * queries * values],
        };
        let (workspace, choice) = (of_copies.saturating_add(own), String::new());
        Ok(Self { sizes, is_gradient, operands: copies, matrix_indices, mask, results, workspace, choice })
    }
}

impl LibraryCode for AttentionStep {
    fn workspace(&self) -> usize {
        self.workspace
    }

    fn choice(&self) -> &str {
        &self.choice
    }

    unsafe fn run(&self, call: OpCall<'_>) -> Result<()> {
        debug_assert!(call.epilogues.is_empty(), "only image ops have epilogues");
        let Self { sizes, is_gradient, operands, matrix_indices: [of_q, of_k, of_v], mask, results, .. } = self;
        // SAFETY: the workspace has the prepared size, the operands are live, and nothing else accesses the results, by
        // the contract of `run`.
        unsafe {
            let mut workspace = Workspace::at(call.workspace, self.workspace);
            let mut numbers: [&[f32]; 5] = [&[]; 5];
            let count = if *is_gradient { 5 } else { 3 };
            for ((to, operand), &at) in numbers[..count].iter_mut().zip(operands).zip(call.operands) {
                *to = operand.elements::<f32>(at, &mut workspace).0;
            }
            let [q, k, v, y, g] = numbers;
            let mask = mask.as_ref().map(|it| {
                let (operand, at) = (&operands[count], call.operands[count]);
                let values = match it.is_bool {
                    true => MaskValues::Bools(operand.elements::<bool>(at, &mut workspace).0),
                    false => MaskValues::Numbers(operand.elements::<f32>(at, &mut workspace).0),
                };
                Mask { values, steps: it.steps, first_elements: &it.first_elements }
            });
            let Sizes { queries, keys, features, values, .. } = *sizes;
            let attention = Attention {
                sizes: *sizes,
                q: Matrices { elements: q, len: queries * features, matrix_indices: of_q },
                k: Matrices { elements: k, len: keys * features, matrix_indices: of_k },
                v: Matrices { elements: v, len: keys * values, matrix_indices: of_v },
                mask,
            };
            let mut to = call.results.iter().zip(results).map(|(&address, &len)| match len {
                0 => &mut [],
                _ => from_raw_parts_mut(address as *mut f32, len),
            });
            let mut result = || to.next().expect("the type rule gives the results of the op");
            match is_gradient {
                true => attention.backward([y, g], [result(), result(), result()], workspace),
                false => attention.forward(result(), workspace),
            }
        }
    }
}

/// An operand: a batch of matrices, which several products may share.
struct Matrices<'a> {
    elements: &'a [f32],
    /// The number of elements of a matrix.
    len: usize,
    /// The index of the matrix of each product.
    matrix_indices: &'a [usize],
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
    Numbers(&'a [f32]),
}

/// A mask for scores.
struct Mask<'a> {
    values: MaskValues<'a>,
    /// Strides between queries and between keys.
    steps: [usize; 2],
    /// The index of the first element for each product.
    first_elements: &'a [usize],
}

/// The layout of a mask.
struct MaskLayout {
    is_bool: bool,
    /// See [`Mask::steps`].
    steps: [usize; 2],
    /// See [`Mask::first_elements`].
    first_elements: Vec<usize>,
}

/// The operands and sizes of attention.
struct Attention<'a> {
    sizes: Sizes,
    q: Matrices<'a>,
    k: Matrices<'a>,
    v: Matrices<'a>,
    mask: Option<Mask<'a>>,
}

impl Deref for Attention<'_> {
    type Target = Sizes;

    fn deref(&self) -> &Sizes {
        &self.sizes
    }
}

/// The sizes of attention.
#[derive(Clone, Copy)]
struct Sizes {
    tile: Tile<f32>,
    rows: &'static Rows,
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

impl MaskLayout {
    fn new(mask: &ArrayLayout, batch: &[usize], [queries, keys]: [usize; 2]) -> Result<Self> {
        let own = mask.layout.shape();
        let mut shape = vec![1; 2usize.saturating_sub(own.len())];
        shape.extend_from_slice(own);
        let (outer, [rows, columns]) = split(&shape);
        let step = |own: usize, size: usize, step: usize| if own == 1 && size != 1 { 0 } else { step };
        let steps = [step(rows, queries, columns), step(columns, keys, 1)];
        let first_elements = matrix_indices(batch, outer)?.into_iter().map(|it| it * rows * columns).collect();
        Ok(Self { is_bool: mask.dtype == DType::Bool, steps, first_elements })
    }
}

impl Mask<'_> {
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

impl Sizes {
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

    /// Estimates the nanoseconds of this number of products of the size of the scores.
    fn nanos(&self, products: usize) -> usize {
        let multiplied = self.batch * self.queries * self.keys * (self.features + self.values) / 2;
        multiplied * products / if self.causal { 64 } else { 32 }
    }
}

impl Attention<'_> {
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
}
