//! Transformer encoders. With a causal mask they also serve as decoder-only networks.

use super::{AttentionMask, KeyValueCache, MultiheadAttention, RotaryEmbedding};
use crate::nn::{CellList, Dense, Dropout, LayerNorm, ReLU};
use crate::prelude::*;

/// Self-attention and a feed-forward network, each with a residual connection and a layer normalisation.
///
/// A call takes `x` `[time, batch, d_model]` and a mask.
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::TransformerEncoderLayer::new(8, 2).dim_feedforward(16).activation(nn::GELU).norm_first(true);
/// let y = layer.call(&random::randn([5, 3, 8]), &nn::AttentionMask::default());
/// assert_eq!(y.shape(), [5, 3, 8]);
/// ```
#[cell]
#[derive(Debug)]
pub struct TransformerEncoderLayer {
    /// The self-attention.
    pub self_attn: MultiheadAttention,
    /// The first layer of the feed-forward network.
    pub linear1: Dense,
    /// The second layer of the feed-forward network.
    pub linear2: Dense,
    /// The normalisation of the attention.
    pub norm1: LayerNorm,
    /// The normalisation of the feed-forward network.
    pub norm2: LayerNorm,
    activation: Box<dyn Layer>,
    dropout: Dropout,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// Creates a layer with `dim_feedforward = 2048`, `dropout = 0.1`, the activation `max(x, 0)`, and normalisations
    /// after the residual connections.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `nhead` divides `d_model`.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize) -> Self {
        Self {
            self_attn: MultiheadAttention::new(d_model, nhead).dropout(0.1),
            linear1: Dense::new(d_model, 2048),
            linear2: Dense::new(2048, d_model),
            norm1: LayerNorm::new(d_model),
            norm2: LayerNorm::new(d_model),
            activation: Box::new(ReLU),
            dropout: Dropout::new(0.1),
            norm_first: false,
        }
    }

    /// Sets the hidden size of the feed-forward network. Creates new parameters.
    #[track_caller]
    pub fn dim_feedforward(self, features: usize) -> Self {
        let d_model = self.norm1.normalized_shape[0];
        Self { linear1: Dense::new(d_model, features), linear2: Dense::new(features, d_model), ..self }
    }

    /// Sets the dropout probability of attention weights, of activations, and of results before residual connections.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `p` is at least zero and less than one.
    #[track_caller]
    pub fn dropout(self, p: f64) -> Self {
        Self { self_attn: self.self_attn.dropout(p), dropout: Dropout::new(p), ..self }
    }

    /// Sets the activation of the feed-forward network.
    pub fn activation(self, activation: impl Layer) -> Self {
        Self { activation: Box::new(activation), ..self }
    }

    /// Sets the `eps` of the normalisations.
    pub fn layer_norm_eps(mut self, eps: f64) -> Self {
        (self.norm1.eps, self.norm2.eps) = (eps, eps);
        self
    }

    /// Sets whether operands and results are `[batch, time, d_model]`.
    pub fn batch_first(self, batch_first: bool) -> Self {
        Self { self_attn: self.self_attn.batch_first(batch_first), ..self }
    }

    /// Sets whether normalisations are applied to the inputs of attention and feed-forward network (pre-norm). By
    /// default they follow the residual sums.
    pub fn norm_first(self, norm_first: bool) -> Self {
        Self { norm_first, ..self }
    }

    /// Applies rotary position embeddings to the queries and keys of each head.
    pub fn rotary(self, rotary: RotaryEmbedding) -> Self {
        Self { self_attn: self.self_attn.rotary(rotary), ..self }
    }

    #[track_caller]
    fn feed_forward(&self, x: &Tensor) -> Tensor {
        let inner = self.dropout.call(&self.activation.forward(&self.linear1.call(x)));
        self.linear2.call(&inner)
    }

    /// Runs the layer with this attention function.
    #[track_caller]
    fn around(&self, x: &Tensor, attend: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        let x = residual(x, &self.norm1, self.norm_first, &self.dropout, attend);
        residual(&x, &self.norm2, self.norm_first, &self.dropout, |x| self.feed_forward(x))
    }

    /// Runs the layer on the next positions, which attend to themselves and to earlier positions. Returns the result
    /// and the extended cache. See [`MultiheadAttention::step`].
    #[track_caller]
    pub fn step(&self, x: &Tensor, cache: &KeyValueCache) -> (Tensor, KeyValueCache) {
        let mut next = None;
        let y = self.around(x, |x| {
            let (y, cache) = self.self_attn.step(x, cache);
            next = Some(cache);
            y
        });
        (y, next.expect("the attention ran"))
    }
}

/// Adds the result of a sublayer to `x`, with the normalisation before the sublayer or after the sum.
#[track_caller]
pub(super) fn residual(
    x: &Tensor,
    norm: &LayerNorm,
    norm_first: bool,
    dropout: &Dropout,
    part: impl FnOnce(&Tensor) -> Tensor,
) -> Tensor {
    match norm_first {
        true => x + dropout.call(&part(&norm.call(x))),
        false => norm.call(&(x + dropout.call(&part(x)))),
    }
}

#[cell]
impl TransformerEncoderLayer {
    fn construct(&self, x: &Tensor, mask: &AttentionMask) -> Tensor {
        self.around(x, |x| self.self_attn.call(x, x, x, mask))
    }
}

/// A stack of [`TransformerEncoderLayer`]s, followed by an optional normalisation.
///
/// ```
/// use ms::prelude::*;
/// let layer = || nn::TransformerEncoderLayer::new(8, 2).dim_feedforward(16).batch_first(true);
/// let encoder = nn::TransformerEncoder::new(2, layer).norm(nn::LayerNorm::new(8));
/// encoder.set_train(false);
/// let x = random::randn([3, 5, 8]);
/// let all = encoder.call(&x, &nn::AttentionMask::causal());
/// // The same, position by position.
/// let mut caches = encoder.caches(3, 5);
/// let (first, next) = encoder.step(&x.i((.., 0..4)), &caches);
/// caches = next;
/// let (last, _) = encoder.step(&x.i((.., 4..5)), &caches);
/// let both = ops::concat(&[first, last], 1);
/// assert!((all - both).abs().max(()).item::<f32>() < 1e-5);
/// ```
#[cell]
#[derive(Debug)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: CellList<TransformerEncoderLayer>,
    /// The final normalisation, or `None`.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// Creates a stack of layers, each made by `layer`, without a final normalisation.
    pub fn new(num_layers: usize, layer: impl Fn() -> TransformerEncoderLayer) -> Self {
        Self { layers: (0..num_layers).map(|_| layer()).collect(), norm: None }
    }

    /// Sets the final normalisation.
    pub fn norm(self, norm: LayerNorm) -> Self {
        Self { norm: Some(norm), ..self }
    }

    /// Creates an empty cache per layer, for at most `capacity` positions of `batch` sequences.
    pub fn caches(&self, batch: usize, capacity: usize) -> Vec<KeyValueCache> {
        self.layers.iter().map(|it| it.self_attn.cache(batch, capacity)).collect()
    }

    /// Runs the stack on the next positions, which attend to themselves and to earlier positions. Returns the result
    /// and the extended caches.
    #[track_caller]
    pub fn step(&self, x: &Tensor, caches: &[KeyValueCache]) -> (Tensor, Vec<KeyValueCache>) {
        let mut next = Vec::with_capacity(caches.len());
        let y = self.layers.iter().zip(caches).fold(x.clone(), |x, (layer, cache)| {
            let (y, cache) = layer.step(&x, cache);
            next.push(cache);
            y
        });
        (self.normalized(y), next)
    }

    #[track_caller]
    fn normalized(&self, y: Tensor) -> Tensor {
        match &self.norm {
            Some(norm) => norm.call(&y),
            None => y,
        }
    }

    #[track_caller]
    fn encode(&self, x: &Tensor, mask: &AttentionMask) -> Tensor {
        self.normalized(self.layers.iter().fold(x.clone(), |x, layer| layer.call(&x, mask)))
    }
}

#[cell]
impl TransformerEncoder {
    fn construct(&self, x: &Tensor, mask: &AttentionMask) -> Tensor {
        self.encode(x, mask)
    }
}
