//! Attention and transformer layers.

mod cache;
mod decoder;
mod encoder;
mod mask;
mod multihead;
mod rotary;

pub use cache::KeyValueCache;
pub use decoder::{DecoderCache, DecoderMasks, Transformer, TransformerDecoder, TransformerDecoderLayer};
pub use encoder::{TransformerEncoder, TransformerEncoderLayer};
pub use mask::AttentionMask;
pub use multihead::MultiheadAttention;
pub use rotary::RotaryEmbedding;
