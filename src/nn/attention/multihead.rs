//! Multi-head attention.

use super::{AttentionMask, KeyValueCache, RotaryEmbedding};
use crate::nn::compute::{operand, result};
use crate::nn::init::{filled_parameter, parameter, xavier_uniform};
use crate::nn::{Dense, Dropout};
use crate::prelude::*;
use ms_core::error::{OrRaise, raise};
use ms_core::ops::rules::check_positive;
use ms_core::trace::ComputeDType;
use ms_core::{Code, Error};

/// Multi-head attention (Vaswani et al. 2017, "Attention Is All You Need"). Queries, keys and values are projected,
/// each head attends with its slice of the features, and an output projection mixes the heads.
///
/// A call takes queries `[queries, batch, embed]`, keys `[keys, batch, kdim]`, values `[keys, batch, vdim]` and a mask.
/// It returns `[queries, batch, embed]`. [`Self::weights`] returns the attention weights.
///
/// ```
/// use ms::prelude::*;
/// let attention = nn::MultiheadAttention::new(8, 2).batch_first(true);
/// let x = random::randn([3, 5, 8]);
/// let y = attention.call(&x, &x, &x, &nn::AttentionMask::causal());
/// assert_eq!(y.shape(), [3, 5, 8]);
/// let weights = attention.weights(&x, &x, &nn::AttentionMask::causal());
/// assert_eq!(weights.shape(), [3, 2, 5, 5]);
/// ```
#[cell]
#[derive(Debug)]
pub struct MultiheadAttention {
    /// The projections of queries, keys and values, `[3 embed, embed]`. `None` if keys or values have a different
    /// number of features.
    pub in_proj_weight: Option<Parameter>,
    /// The projection of queries, `[embed, embed]`, if there is no `in_proj_weight`.
    pub q_proj_weight: Option<Parameter>,
    /// The projection of keys, `[embed, kdim]`, if there is no `in_proj_weight`.
    pub k_proj_weight: Option<Parameter>,
    /// The projection of values, `[embed, vdim]`, if there is no `in_proj_weight`.
    pub v_proj_weight: Option<Parameter>,
    /// The bias of the input projections, `[3 embed]`, or `None`.
    pub in_proj_bias: Option<Parameter>,
    /// The output projection.
    pub out_proj: Dense,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
    embed: usize,
    heads: usize,
    batch_first: bool,
    dropout: Dropout,
    rotary: Option<RotaryEmbedding>,
}

impl MultiheadAttention {
    /// Creates attention over `embed` features with biases. Input projections are initialised by [`xavier_uniform`];
    /// biases are zero.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `heads` divides `embed`.
    #[track_caller]
    pub fn new(embed: usize, heads: usize) -> Self {
        check_positive("MultiheadAttention", "heads", heads).or_raise();
        if !embed.is_multiple_of(heads) {
            let message = format!("`heads` is {heads}, but has to divide {embed} features");
            raise(Error::new(Code::Argument, message).with_op("MultiheadAttention"));
        }
        let shape = [3 * embed, embed];
        Self {
            in_proj_weight: Some(parameter(&shape, || xavier_uniform(&shape, 1.0))),
            q_proj_weight: None,
            k_proj_weight: None,
            v_proj_weight: None,
            in_proj_bias: Some(filled_parameter(&[3 * embed], 0.0)),
            out_proj: Dense::new(embed, embed).bias_init(|it| Tensor::zeros(it)),
            compute: ComputeDType::default(),
            embed,
            heads,
            batch_first: false,
            dropout: Dropout::new(0.0),
            rotary: None,
        }
    }

    /// Sets the numbers of features of keys and values. Creates new parameters.
    #[track_caller]
    pub fn features(self, kdim: usize, vdim: usize) -> Self {
        let make = |inputs: usize| {
            let shape = [self.embed, inputs];
            Some(parameter(&shape, || xavier_uniform(&shape, 1.0)))
        };
        Self {
            in_proj_weight: None,
            q_proj_weight: make(self.embed),
            k_proj_weight: make(kdim),
            v_proj_weight: make(vdim),
            ..self
        }
    }

    /// Sets whether operands and results are `[batch, time, features]`.
    pub fn batch_first(self, batch_first: bool) -> Self {
        Self { batch_first, ..self }
    }

    /// Removes the biases.
    pub fn without_bias(self) -> Self {
        Self { in_proj_bias: None, out_proj: Dense { bias: None, ..self.out_proj }, ..self }
    }

    /// Sets the dropout probability of attention weights.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `p` is at least zero and less than one.
    #[track_caller]
    pub fn dropout(self, p: f64) -> Self {
        Self { dropout: Dropout::new(p), ..self }
    }

    /// Applies rotary position embeddings to the queries and keys of each head.
    pub fn rotary(self, rotary: RotaryEmbedding) -> Self {
        Self { rotary: Some(rotary), ..self }
    }

    /// Projects input number `at` (queries, keys or values) to `[batch, heads, time, features]`.
    #[track_caller]
    fn project(&self, x: &Tensor, at: usize) -> Tensor {
        if x.rank() != 3 {
            let message = format!("{} does not have axes of batch, time and features", x.ty());
            raise(Error::new(Code::Shape, message).with_op("MultiheadAttention"));
        }
        let part = |it: &Parameter| operand(&self.compute, &ops::split(it, 3, 0).swap_remove(at));
        let weight = match &self.in_proj_weight {
            Some(all) => part(all),
            None => {
                let own = [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight][at];
                operand(&self.compute, &own.as_ref().expect("either all are one parameter, or each is").value())
            }
        };
        let y = ops::dense(operand(&self.compute, x), &weight, self.in_proj_bias.as_ref().map(part).as_ref());
        let dims = y.dims();
        let y = y.reshape((dims[0], dims[1], self.heads, self.embed / self.heads));
        y.permute(if self.batch_first { [0, 2, 1, 3] } else { [1, 2, 0, 3] })
    }

    /// Applies the rotary embedding, if there is one, to queries or keys whose first position is `first`.
    #[track_caller]
    fn rotated(&self, x: Tensor, first: Option<&Tensor>) -> Tensor {
        let Some(rotary) = &self.rotary else { return x };
        let positions = ops::arange(x.dim(2));
        rotary.call(&x, &first.map_or(positions.clone(), |it| positions + it))
    }

    /// Merges the heads and applies the output projection.
    #[track_caller]
    fn merged(&self, y: Tensor) -> Tensor {
        let y = y.permute(if self.batch_first { [0, 2, 1, 3] } else { [2, 0, 1, 3] });
        let dims = y.dims();
        self.out_proj.call(&y.reshape((dims[0], dims[1], self.embed)))
    }

    /// Returns the attention weights, `[batch, heads, queries, keys]`.
    #[track_caller]
    pub fn weights(&self, q: &Tensor, k: &Tensor, mask: &AttentionMask) -> Tensor {
        let (q, k) = (self.rotated(self.project(q, 0), None), self.rotated(self.project(k, 1), None));
        ops::attention_weights(&q, &k, &self.options(mask))
    }

    fn options(&self, mask: &AttentionMask) -> ops::AttentionOptions {
        ops::AttentionOptions { mask: mask.of_scores(self.heads), causal: mask.is_causal, scale: None }
    }

    /// Attends with projected queries, keys and values.
    #[track_caller]
    fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor, options: &ops::AttentionOptions) -> Tensor {
        if self.dropout.is_active() {
            let weights = self.dropout.call(&ops::attention_weights(q, k, options));
            return self.merged(ops::matmul(weights, v));
        }
        self.merged(ops::scaled_dot_product_attention(q, k, v, options))
    }

    #[track_caller]
    fn attention(&self, x: &Tensor, k: &Tensor, v: &Tensor, mask: &AttentionMask) -> Tensor {
        let [q, k, v] = [self.project(x, 0), self.project(k, 1), self.project(v, 2)];
        let y = self.attend(&self.rotated(q, None), &self.rotated(k, None), &v, &self.options(mask));
        result(&self.compute, y, x)
    }

    /// Creates an empty cache for at most `capacity` positions of `batch` sequences.
    pub fn cache(&self, batch: usize, capacity: usize) -> KeyValueCache {
        let dtype = self.compute.get().unwrap_or(self.out_proj.weight.value().dtype());
        let empty = Tensor::zeros_of([batch, self.heads, capacity, self.embed / self.heads], dtype);
        KeyValueCache { keys: empty.clone(), values: empty, length: Tensor::from(0i64) }
    }

    /// Attends from the next positions `x` to themselves and to all earlier positions. `x` may hold one position, or
    /// several, such as a prompt. Returns the result and the extended cache.
    ///
    /// # Panics
    /// Raises [`Code::Assertion`] when the capacity is used up.
    #[track_caller]
    pub fn step(&self, x: &Tensor, cache: &KeyValueCache) -> (Tensor, KeyValueCache) {
        let [q, k, v] = [0, 1, 2].map(|at| self.project(x, at));
        let (q, k) = (self.rotated(q, Some(&cache.length)), self.rotated(k, Some(&cache.length)));
        let cache = cache.extended(&k, &v);
        let mask = Some(cache.seen(q.dim(2)));
        let options = ops::AttentionOptions { mask, ..ops::AttentionOptions::default() };
        (result(&self.compute, self.attend(&q, &cache.keys, &cache.values, &options), x), cache)
    }

    /// Projects the keys and values of a memory, for [`Self::recall`].
    #[track_caller]
    pub(super) fn remember(&self, memory: &Tensor) -> (Tensor, Tensor) {
        (self.rotated(self.project(memory, 1), None), self.project(memory, 2))
    }

    /// Attends to a memory that [`Self::remember`] projected.
    #[track_caller]
    pub(super) fn recall(&self, x: &Tensor, (k, v): &(Tensor, Tensor), mask: &AttentionMask) -> Tensor {
        result(&self.compute, self.attend(&self.rotated(self.project(x, 0), None), k, v, &self.options(mask)), x)
    }
}

#[cell]
impl MultiheadAttention {
    fn construct(&self, q: &Tensor, k: &Tensor, v: &Tensor, mask: &AttentionMask) -> Tensor {
        self.attention(q, k, v, mask)
    }
}
