//! Attention masks.

use crate::prelude::*;

/// The keys that a query may use. As in PyTorch and MindSpore, `true` in a bool mask excludes a key, and a float mask
/// is added to the scores.
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::TransformerEncoderLayer::new(8, 2).dim_feedforward(16);
/// let x = random::randn([3, 2, 8]);
/// let padding = nn::AttentionMask::padding(tensor![[false, false, true], [false, false, false]]);
/// assert_eq!(layer.call(&x, &padding).shape(), [3, 2, 8]);
/// assert_eq!(layer.call(&x, &nn::AttentionMask::causal()).shape(), [3, 2, 8]);
/// ```
#[derive(Clone, Debug, Default, Tree)]
pub struct AttentionMask {
    /// A mask for the keys of each sequence, `[batch, keys]`: true for padding.
    pub key_padding_mask: Option<Tensor>,
    /// A mask for each query and key: `[queries, keys]`, or `[batch heads, queries, keys]`.
    pub attn_mask: Option<Tensor>,
    /// Whether a query uses only keys up to its own position.
    pub is_causal: bool,
}

impl AttentionMask {
    /// Creates a mask that excludes keys after the position of the query.
    pub fn causal() -> Self {
        Self { is_causal: true, ..Self::default() }
    }

    /// Creates a mask that excludes the keys for which `mask` `[batch, keys]` is true.
    pub fn padding(mask: Tensor) -> Self {
        Self { key_padding_mask: Some(mask), ..Self::default() }
    }

    /// Returns the mask of scores `[batch, heads, queries, keys]` in the convention of [`ops::AttentionOptions`]: true
    /// for used keys.
    #[track_caller]
    pub(super) fn of_scores(&self, heads: usize) -> Option<Tensor> {
        let used = |it: Tensor| if it.dtype() == DType::Bool { ops::logical_not(it) } else { it };
        let padding = self.key_padding_mask.as_ref().map(|it| used(it.expand_dims([1, 2])));
        let pairs = self.attn_mask.as_ref().map(|it| match it.rank() {
            3 => {
                let dims = it.dims();
                used(it.reshape((dims[0] / heads, heads, dims[1], dims[2])))
            }
            _ => used(it.clone()),
        });
        match (padding, pairs) {
            (Some(a), Some(b)) => Some(both(a, b)),
            (a, b) => a.or(b),
        }
    }
}

/// Combines two masks.
#[track_caller]
fn both(a: Tensor, b: Tensor) -> Tensor {
    if a.dtype() == DType::Bool && b.dtype() == DType::Bool {
        return ops::logical_and(a, b);
    }
    added(a) + added(b)
}

/// Converts a mask to a term that is added to scores.
#[track_caller]
fn added(mask: Tensor) -> Tensor {
    if mask.dtype() != DType::Bool {
        return mask;
    }
    let excluded = ops::full_of((), f64::NEG_INFINITY, DType::F32);
    ops::select(mask, 0.0, excluded)
}
