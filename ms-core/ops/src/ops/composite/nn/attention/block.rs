//! Blocks of queries, whose scores are materialised one block at a time.

use super::super::softmax::softmax_of_used;
use crate::ops::core::rules::{check_broadcast, sum_dtype, sum_to};
use crate::ops::primitive::iota::spaced;
use crate::ops::primitive::slice::narrow;
use crate::ops::{
    Cotangents, PartialGradient, add, cast, depend, full_of, greater_equal, iota, keepdims, matmul, mul, rsqrt, select,
    size, softmax, sum, transpose,
};
use crate::tensor::{DType, Dim, Dims, Scalar, Tensor, broadcast_sizes};
use ms_ir::error::{Code, Error, OrRaise, Result};

/// The maximum number of scores that are materialised at once, unless [`QUERIES`] have more.
const SCORES: usize = 1 << 22;

/// The minimum number of queries of a block. With fewer, products read the keys and the values too often.
const QUERIES: usize = 128;

/// Returns the sizes of scores `[.., queries, keys]`; `None` if the operands are incompatible.
fn scores(q: &[Dim], k: &[Dim]) -> Option<Dims> {
    let (of_q, q) = q.split_at_checked(q.len().checked_sub(2)?)?;
    let (of_k, k) = k.split_at_checked(k.len().checked_sub(2)?)?;
    let mut sizes = broadcast_sizes(of_q, of_k).ok()?;
    sizes.extend([q[0], k[0]]);
    (q[1] == k[1]).then_some(sizes)
}

/// The computation of scores.
#[derive(Clone, Copy)]
pub(super) struct Scoring {
    /// Whether a query uses only keys up to its own position.
    pub causal: bool,
    /// The factor of the scores; one over the square root of the features by default.
    pub scale: Option<f64>,
}

/// A block of queries, and the leading keys and values that they use.
#[derive(Clone)]
pub(super) struct Block {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    pub mask: Option<Tensor>,
    /// The position of the first query.
    pub first: usize,
    /// The tensor after which the weights are computed.
    after: Option<Tensor>,
}

/// Slices an axis, counted from the end, to `count` positions from `first` on. Returns all of `x` if the axis has size
/// 1 or does not exist.
fn part(x: &Tensor, axis: usize, (first, count): (usize, usize)) -> Tensor {
    match x.rank().checked_sub(axis) {
        Some(at) if x.dims()[at] != 1 => narrow(x, at, first, count),
        _ => x.clone(),
    }
}

impl Block {
    /// Returns the numbers of queries and of keys; `None` if they are symbolic, or values or mask are incompatible.
    fn sizes(&self) -> Option<[usize; 2]> {
        let sizes = scores(&self.q.dims(), &self.k.dims())?;
        let [.., queries, keys] = sizes[..] else { return None };
        let values = self.v.rank().checked_sub(2).map(|at| self.v.dims()[at])?;
        let of_mask = self.mask.iter().all(|it| check_mask(it, &sizes).is_ok());
        (values == keys && of_mask).then_some([queries.as_const()?, keys.as_const()?])
    }

    /// Returns the number of queries of a block; `None` if the scores of all queries are materialised at once. This
    /// happens for few scores, a symbolic size, or incompatible operands.
    pub fn queries_of_blocks(&self) -> Option<usize> {
        let sizes = scores(&self.q.dims(), &self.k.dims())?;
        let sizes = sizes.iter().map(|it| it.as_const()).collect::<Option<Vec<usize>>>()?;
        let queries = sizes[sizes.len() - 2];
        let row = sizes.iter().try_fold(1usize, |all, &it| all.checked_mul(it))?.checked_div(queries)?;
        let is_cut = row > 0 && row.saturating_mul(queries) > SCORES && self.sizes().is_some();
        let blocks = is_cut.then(|| queries.div_ceil((SCORES / row).max(QUERIES)))?;
        Some(queries.div_ceil(blocks).next_multiple_of(16))
    }

    /// Creates the block of all queries.
    pub fn whole(inputs: &[&Tensor]) -> Self {
        let [q, k, v, mask @ ..] = inputs else { unreachable!("the operands are `q`, `k` and `v`") };
        let [q, k, v] = [q, k, v].map(|it| Tensor::clone(it));
        Self { q, k, v, mask: mask.first().map(|it| Tensor::clone(it)), first: 0, after: None }
    }

    /// Iterates over blocks of `len` queries, each sliced on demand.
    ///
    /// There is a single block if a size is symbolic, or if the operands are incompatible, which their ops refuse. If
    /// attention is causal, only the last block uses all keys.
    pub fn all(causal: bool, len: usize, inputs: &[&Tensor]) -> impl DoubleEndedIterator<Item = Self> {
        let whole = Self::whole(inputs);
        let sizes = whole.sizes();
        let count = sizes.map_or(1, |[queries, _]| queries.div_ceil(len).max(1));
        (0..count).map(move |at| {
            let Some([queries, keys]) = sizes else { return whole.clone() };
            let (first, count) = (at * len, len.min(queries - at * len));
            let used = (0, if causal { keys.min(first + count) } else { keys });
            Self {
                q: narrow(&whole.q, whole.q.rank() - 2, first, count),
                k: narrow(&whole.k, whole.k.rank() - 2, used.0, used.1),
                v: narrow(&whole.v, whole.v.rank() - 2, used.0, used.1),
                mask: whole.mask.as_ref().map(|it| part(&part(it, 2, (first, count)), 1, used)),
                first,
                after: None,
            }
        })
    }

    /// Makes the weights of the block depend on a tensor, so that they are computed after it. The weights of the
    /// forward pass are thus recomputed instead of stored.
    pub fn after(self, it: &Tensor) -> Self {
        Self { q: depend(&self.q, it), after: Some(it.clone()), ..self }
    }

    /// Returns the weight of each key for each query: `softmax(q kᵀ * scale + mask)`. A query for which the mask
    /// excludes all keys has zeros.
    pub fn weights(&self, by: Scoring) -> Tensor {
        let mut scores = by.scaled(matmul(&self.q, transpose(&self.k, -2, -1)), &self.q);
        let excluded = full_of((), f64::NEG_INFINITY, scores.dtype());
        if by.causal {
            let (queries, keys) = (scores.dim(-2), scores.dim(-1));
            let rows = spaced((queries, 1), 0, Scalar::Int(self.first as i64), Scalar::Int(1), DType::I64);
            let rows = match &self.after {
                Some(it) => depend(&rows, it),
                None => rows,
            };
            let seen = greater_equal(rows, iota((1, keys), 1, DType::I64));
            scores = select(seen, &scores, &excluded);
        }
        if let Some(mask) = &self.mask {
            check_mask(mask, &scores.dims()).or_raise();
            scores = match mask.dtype() {
                DType::Bool => select(mask, &scores, &excluded),
                _ => add(&scores, mask),
            };
            return softmax_of_used(&scores, -1);
        }
        // Without a mask every query uses the first key, so no row excludes all keys.
        softmax(&scores, -1)
    }

    /// Returns the gradients of the operands that need one. `p` has the weights. `of_results` has the gradients of the
    /// result and of the weights, at least one of which is given.
    ///
    /// With `gp = g vᵀ`, the gradient of the weights, the gradient of the masked scores is `gs = p (gp - Σ gp p)`.
    /// `sum_of_weights` is `Σ gp p` for each query, if known. The gradients of `q` and `k` are `gs k` and `gsᵀ q` times
    /// the scale. The gradient of `v` is `pᵀ g`, and an additive mask has the gradient `gs`.
    pub fn gradients(
        &self,
        by: Scoring,
        needs: &[bool],
        p: &Tensor,
        of_results: [Option<&Tensor>; 2],
        sum_of_weights: Option<Tensor>,
    ) -> Cotangents {
        let [g, of_weights] = of_results;
        let of_v = g.filter(|_| needs[2]).map(|g| matmul(transpose(p, -2, -1), g));
        let through = g.map(|g| matmul(g, transpose(&self.v, -2, -1)));
        let terms = through.into_iter().chain(of_weights.cloned());
        let gp = terms.reduce(|a, b| a + b).expect("one of the results has a gradient");
        let masked = p * (&gp - sum_of_weights.unwrap_or_else(|| sum(&gp * p, keepdims(-1))));
        let scores = by.scaled(masked.clone(), &self.q);
        let of_q = needs[0].then(|| matmul(&scores, &self.k));
        let of_k = needs[1].then(|| matmul(transpose(&scores, -2, -1), &self.q));
        let of_mask = self.mask.as_ref().map(|mask| Some(masked).filter(|_| needs[3] && mask.dtype().is_float()));
        [of_q, of_k, of_v].into_iter().chain(of_mask).collect()
    }

    /// Returns the operands, each with the position of its first element along the second-to-last axis.
    pub fn operands(&self) -> impl Iterator<Item = (&Tensor, usize)> {
        let mask = self.mask.iter().map(|it| (it, self.first));
        [(&self.q, self.first), (&self.k, 0), (&self.v, 0)].into_iter().chain(mask)
    }

    /// Checks that queries, keys and values have axes of positions and of features, because a product accepts vectors
    /// as well.
    ///
    /// # Errors
    /// [`Code::Shape`] if an operand has rank 0 or 1.
    pub fn check_ranks(&self) -> Result<()> {
        match [&self.q, &self.k, &self.v].into_iter().find(|it| it.rank() < 2) {
            Some(it) => Err(Error::new(Code::Shape, format!("attention of {} has no axis of positions", it.ty()))),
            None => Ok(()),
        }
    }

    /// Checks that tensors have the sizes of the result of these operands.
    ///
    /// # Errors
    /// [`Code::Shape`] if they do not, or if the operands are incompatible.
    pub fn check_results(&self, results: [&Tensor; 2]) -> Result<()> {
        let dims = || {
            let mut dims = scores(&self.q.dims(), &self.k.dims())?;
            let (keys, queries) = (dims.pop()?, dims.pop()?);
            let of_v = self.v.dims();
            let (outer, inner) = of_v.split_at_checked(of_v.len().checked_sub(2)?)?;
            let mut dims = broadcast_sizes(&dims, outer).ok().filter(|_| inner[0].may_equal(keys))?;
            dims.extend([queries, inner[1]]);
            Some(dims)
        };
        let has = |it: &Tensor, dims: &Dims| {
            it.rank() == dims.len() && it.dims().iter().zip(dims).all(|(own, dim)| own.may_equal(*dim))
        };
        if dims().is_some_and(|dims| results.iter().all(|it| has(it, &dims))) {
            return Ok(());
        }
        let ([y, g], [q, k, v]) = (results.map(Tensor::ty), [&self.q, &self.k, &self.v].map(Tensor::ty));
        Err(Error::new(Code::Shape, format!("{y} and {g} are no results of attention of {q}, {k} and {v}")))
    }

    /// Slices the result or its gradient to the queries of this block.
    pub fn of_result(&self, x: &Tensor) -> Tensor {
        narrow(x, x.rank() - 2, self.first, self.q.dim(-2))
    }
}

fn check_mask(mask: &Tensor, scores: &[Dim]) -> Result<()> {
    check_broadcast("scaled_dot_product_attention", "mask", mask, scores)
}

impl Scoring {
    /// Multiplies scores by their factor.
    fn scaled(self, scores: Tensor, q: &Tensor) -> Tensor {
        let features = q.dim(-1);
        match (self.scale, features.as_const()) {
            (Some(scale), _) => mul(scores, scale),
            (None, Some(features)) => mul(scores, default_scale(features)),
            (None, None) => mul(&scores, rsqrt(size(features, scores.dtype()))),
        }
    }
}

/// Returns the default factor of scores for queries with `features` features.
pub(super) fn default_scale(features: usize) -> f64 {
    1.0 / (features as f64).sqrt()
}

/// The gradient of an operand, accumulated over its blocks. Narrow floats are accumulated in f32.
pub(super) struct Total<'a> {
    operand: &'a Tensor,
    sum: Option<Tensor>,
}

impl<'a> Total<'a> {
    pub fn new(operand: &'a Tensor) -> Self {
        Self { operand, sum: None }
    }

    /// Adds the gradient of a part of the operand. The part begins at position `first` of the second-to-last axis, if
    /// that axis has more than one position.
    pub fn add(&mut self, gradient: &Tensor, part: &Tensor, first: usize) {
        let (dims, dtype) = (self.operand.dims(), sum_dtype(self.operand.dtype()));
        let gradient = cast(sum_to(gradient, part), dtype);
        let sum = match self.sum.take() {
            None if gradient.dims() == dims => gradient,
            // Parts are added in place one by one; a sum of all of them would keep them all alive.
            sum => {
                let mut starts = vec![Dim::new(0); dims.len()];
                if let Some(queries) = dims.len().checked_sub(2).filter(|&it| dims[it] != 1) {
                    starts[queries] = Dim::new(first);
                }
                let sum = sum.unwrap_or_else(|| full_of(&*dims, 0.0, dtype));
                let part = PartialGradient::slice(&sum, &starts, &vec![1; dims.len()], &gradient);
                PartialGradient::sum(Some(sum), &[part])
            }
        };
        self.sum = Some(sum);
    }

    /// Returns the sum, in the dtype of the operand; `None` without a part.
    pub fn finish(self) -> Option<Tensor> {
        self.sum.map(|it| cast(it, self.operand.dtype()))
    }
}
