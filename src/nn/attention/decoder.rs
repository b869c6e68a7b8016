//! Transformer decoders, which attend to a memory.

use super::encoder::residual;
use super::{AttentionMask, KeyValueCache, MultiheadAttention, TransformerEncoder, TransformerEncoderLayer};
use crate::nn::{CellList, Dense, Dropout, LayerNorm, ReLU};
use crate::prelude::*;

/// The attention masks of a decoder.
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::TransformerDecoderLayer::new(8, 2).dim_feedforward(16);
/// layer.set_train(false);
/// let (x, memory) = (random::randn([5, 1, 8]), random::randn([4, 1, 8]));
/// let [all, some] = [&x, &x.i(..3)].map(|x| layer.call(x, &memory, &nn::DecoderMasks::causal()));
/// // Later positions do not change earlier results.
/// assert!((all.i(..3) - some).abs().max(()).item::<f32>() < 1e-5);
/// ```
#[derive(Clone, Debug, Default, Tree)]
pub struct DecoderMasks {
    /// The mask of self-attention.
    pub tgt: AttentionMask,
    /// The mask of cross-attention to the memory.
    pub memory: AttentionMask,
}

impl DecoderMasks {
    /// Creates masks for a target in which a position uses only positions up to its own.
    pub fn causal() -> Self {
        Self { tgt: AttentionMask::causal(), ..Self::default() }
    }
}

/// Self-attention, cross-attention to a memory, and a feed-forward network. Each has a residual connection and a layer
/// normalisation.
///
/// A call takes the target `[time, batch, d_model]`, the memory `[keys, batch, d_model]` and masks.
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::TransformerDecoderLayer::new(8, 2).dim_feedforward(16);
/// let y = layer.call(&random::randn([5, 3, 8]), &random::randn([4, 3, 8]), &nn::DecoderMasks::causal());
/// assert_eq!(y.shape(), [5, 3, 8]);
/// ```
#[cell]
#[derive(Debug)]
pub struct TransformerDecoderLayer {
    /// The self-attention of the target.
    pub self_attn: MultiheadAttention,
    /// The cross-attention to the memory.
    pub multihead_attn: MultiheadAttention,
    /// The first layer of the feed-forward network.
    pub linear1: Dense,
    /// The second layer of the feed-forward network.
    pub linear2: Dense,
    /// The normalisation of self-attention.
    pub norm1: LayerNorm,
    /// The normalisation of cross-attention.
    pub norm2: LayerNorm,
    /// The normalisation of the feed-forward network.
    pub norm3: LayerNorm,
    activation: Box<dyn Layer>,
    dropout: Dropout,
    norm_first: bool,
}

/// The keys and values of a [`TransformerDecoderLayer`] for generation.
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::TransformerDecoderLayer::new(8, 2).dim_feedforward(16);
/// layer.set_train(false);
/// let (x, memory) = (random::randn([2, 1, 8]), random::randn([4, 1, 8]));
/// let (cache, mask) = (layer.cache(&memory, 1, 2), nn::AttentionMask::default());
/// let (_, cache) = layer.step(&x.i(..1), &cache, &mask);
/// let (y, _) = layer.step(&x.i(1..), &cache, &mask);
/// let all = layer.call(&x, &memory, &nn::DecoderMasks::causal());
/// assert!((y - all.i(1..)).abs().max(()).item::<f32>() < 1e-5);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct DecoderCache {
    /// The keys and values of the target so far.
    pub tgt: KeyValueCache,
    /// The projected keys and values of the memory.
    pub memory: (Tensor, Tensor),
}

impl TransformerDecoderLayer {
    /// Creates a layer with `dim_feedforward = 2048`, `dropout = 0.1`, the activation `max(x, 0)`, and normalisations
    /// after the residual connections.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `nhead` divides `d_model`.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize) -> Self {
        Self {
            self_attn: MultiheadAttention::new(d_model, nhead).dropout(0.1),
            multihead_attn: MultiheadAttention::new(d_model, nhead).dropout(0.1),
            linear1: Dense::new(d_model, 2048),
            linear2: Dense::new(2048, d_model),
            norm1: LayerNorm::new(d_model),
            norm2: LayerNorm::new(d_model),
            norm3: LayerNorm::new(d_model),
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
        let (self_attn, multihead_attn) = (self.self_attn.dropout(p), self.multihead_attn.dropout(p));
        Self { self_attn, multihead_attn, dropout: Dropout::new(p), ..self }
    }

    /// Sets the activation of the feed-forward network.
    pub fn activation(self, activation: impl Layer) -> Self {
        Self { activation: Box::new(activation), ..self }
    }

    /// Sets the `eps` of the normalisations.
    pub fn layer_norm_eps(mut self, eps: f64) -> Self {
        (self.norm1.eps, self.norm2.eps, self.norm3.eps) = (eps, eps, eps);
        self
    }

    /// Sets whether operands and results are `[batch, time, d_model]`.
    pub fn batch_first(self, batch_first: bool) -> Self {
        let self_attn = self.self_attn.batch_first(batch_first);
        Self { self_attn, multihead_attn: self.multihead_attn.batch_first(batch_first), ..self }
    }

    /// Sets whether normalisations are applied to the inputs of attentions and feed-forward network (pre-norm). By
    /// default they follow the residual sums.
    pub fn norm_first(self, norm_first: bool) -> Self {
        Self { norm_first, ..self }
    }

    #[track_caller]
    fn feed_forward(&self, x: &Tensor) -> Tensor {
        let inner = self.dropout.call(&self.activation.forward(&self.linear1.call(x)));
        self.linear2.call(&inner)
    }

    /// Runs the layer with these two attention functions.
    #[track_caller]
    fn around(
        &self,
        x: &Tensor,
        attend: impl FnOnce(&Tensor) -> Tensor,
        recall: impl FnOnce(&Tensor) -> Tensor,
    ) -> Tensor {
        let x = residual(x, &self.norm1, self.norm_first, &self.dropout, attend);
        let x = residual(&x, &self.norm2, self.norm_first, &self.dropout, recall);
        residual(&x, &self.norm3, self.norm_first, &self.dropout, |x| self.feed_forward(x))
    }

    /// Creates a cache for at most `capacity` positions of a target, with the memory `[keys, batch, d_model]`.
    #[track_caller]
    pub fn cache(&self, memory: &Tensor, batch: usize, capacity: usize) -> DecoderCache {
        DecoderCache { tgt: self.self_attn.cache(batch, capacity), memory: self.multihead_attn.remember(memory) }
    }

    /// Runs the layer on the next positions of the target. They attend to themselves, to earlier positions, and to the
    /// memory. Returns the result and the extended cache.
    #[track_caller]
    pub fn step(&self, x: &Tensor, cache: &DecoderCache, memory: &AttentionMask) -> (Tensor, DecoderCache) {
        let mut next = None;
        let attend = |x: &Tensor| {
            let (y, cache) = self.self_attn.step(x, &cache.tgt);
            next = Some(cache);
            y
        };
        let y = self.around(x, attend, |x| self.multihead_attn.recall(x, &cache.memory, memory));
        (y, DecoderCache { tgt: next.expect("the attention ran"), memory: cache.memory.clone() })
    }
}

#[cell]
impl TransformerDecoderLayer {
    fn construct(&self, tgt: &Tensor, memory: &Tensor, masks: &DecoderMasks) -> Tensor {
        self.around(
            tgt,
            |x| self.self_attn.call(x, x, x, &masks.tgt),
            |x| self.multihead_attn.call(x, memory, memory, &masks.memory),
        )
    }
}

/// A stack of [`TransformerDecoderLayer`]s, followed by an optional normalisation.
///
/// ```
/// use ms::prelude::*;
/// let decoder = nn::TransformerDecoder::new(2, || nn::TransformerDecoderLayer::new(8, 2).dim_feedforward(16));
/// let y = decoder.call(&random::randn([5, 3, 8]), &random::randn([4, 3, 8]), &nn::DecoderMasks::causal());
/// assert_eq!(y.shape(), [5, 3, 8]);
/// ```
#[cell]
#[derive(Debug)]
pub struct TransformerDecoder {
    /// The layers.
    pub layers: CellList<TransformerDecoderLayer>,
    /// The final normalisation, or `None`.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// Creates a stack of layers, each made by `layer`, without a final normalisation.
    pub fn new(num_layers: usize, layer: impl Fn() -> TransformerDecoderLayer) -> Self {
        Self { layers: (0..num_layers).map(|_| layer()).collect(), norm: None }
    }

    /// Sets the final normalisation.
    pub fn norm(self, norm: LayerNorm) -> Self {
        Self { norm: Some(norm), ..self }
    }

    /// Creates a cache per layer, for at most `capacity` positions of `batch` targets, with the memory.
    #[track_caller]
    pub fn caches(&self, memory: &Tensor, batch: usize, capacity: usize) -> Vec<DecoderCache> {
        self.layers.iter().map(|it| it.cache(memory, batch, capacity)).collect()
    }

    /// Runs the stack on the next positions of the target. Returns the result and the extended caches.
    #[track_caller]
    pub fn step(&self, x: &Tensor, caches: &[DecoderCache], memory: &AttentionMask) -> (Tensor, Vec<DecoderCache>) {
        let mut next = Vec::with_capacity(caches.len());
        let y = self.layers.iter().zip(caches).fold(x.clone(), |x, (layer, cache)| {
            let (y, cache) = layer.step(&x, cache, memory);
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
    fn decode(&self, tgt: &Tensor, memory: &Tensor, masks: &DecoderMasks) -> Tensor {
        self.normalized(self.layers.iter().fold(tgt.clone(), |x, layer| layer.call(&x, memory, masks)))
    }
}

#[cell]
impl TransformerDecoder {
    fn construct(&self, tgt: &Tensor, memory: &Tensor, masks: &DecoderMasks) -> Tensor {
        self.decode(tgt, memory, masks)
    }
}

/// An encoder-decoder transformer: the encoder's result is the memory of the decoder.
///
/// A call takes the source `[keys, batch, d_model]`, the target `[time, batch, d_model]`, the mask of the source, and
/// the masks of the decoder.
///
/// ```
/// use ms::prelude::*;
/// let transformer = nn::Transformer::new(8, 2, 1, 1);
/// let (src, tgt) = (random::randn([4, 3, 8]), random::randn([5, 3, 8]));
/// let y = transformer.call(&src, &tgt, &nn::AttentionMask::default(), &nn::DecoderMasks::causal());
/// assert_eq!(y.shape(), [5, 3, 8]);
/// ```
#[cell]
#[derive(Debug)]
pub struct Transformer {
    /// The encoder.
    pub encoder: TransformerEncoder,
    /// The decoder.
    pub decoder: TransformerDecoder,
}

impl Transformer {
    /// Creates stacks of default layers, each with a final normalisation. For other options, build the stacks yourself:
    /// the fields are public.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `nhead` divides `d_model`.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize, num_encoder_layers: usize, num_decoder_layers: usize) -> Self {
        let encoder = TransformerEncoder::new(num_encoder_layers, || TransformerEncoderLayer::new(d_model, nhead));
        let decoder = TransformerDecoder::new(num_decoder_layers, || TransformerDecoderLayer::new(d_model, nhead));
        Self { encoder: encoder.norm(LayerNorm::new(d_model)), decoder: decoder.norm(LayerNorm::new(d_model)) }
    }
}

#[cell]
impl Transformer {
    fn construct(&self, src: &Tensor, tgt: &Tensor, mask: &AttentionMask, masks: &DecoderMasks) -> Tensor {
        self.decoder.call(tgt, &self.encoder.call(src, mask), masks)
    }
}
