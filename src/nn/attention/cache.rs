//! A key/value cache for incremental decoding.

use crate::prelude::*;

/// The keys and values of the positions so far, for generation. It is a pytree of tensors with fixed shapes, so one
/// compiled step serves every position.
///
/// ```
/// use ms::prelude::*;
/// let attention = nn::MultiheadAttention::new(8, 2).batch_first(true);
/// let mut cache = attention.cache(3, 16);
/// for _ in 0..4 {
///     let (y, next) = attention.step(&random::randn([3, 1, 8]), &cache);
///     assert_eq!(y.shape(), [3, 1, 8]);
///     cache = next;
/// }
/// assert_eq!(cache.length.item::<i64>(), 4);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct KeyValueCache {
    /// The keys, `[batch, heads, capacity, features]`.
    pub keys: Tensor,
    /// The values, `[batch, heads, capacity, features]`.
    pub values: Tensor,
    /// The number of positions so far, an `i64[]`.
    pub length: Tensor,
}

impl KeyValueCache {
    /// Returns the cache with the keys and values of further positions, `[batch, heads, new, features]`. Raises
    /// [`Code::Assertion`](ms_core::Code::Assertion) if the capacity is exceeded.
    #[track_caller]
    pub(super) fn extended(&self, keys: &Tensor, values: &Tensor) -> Self {
        let (capacity, new) = (self.keys.dim(2), keys.dim(2));
        let length = &self.length + ops::size(new, DType::I64);
        ops::assert_that(length.le(ops::size(capacity, DType::I64)), "`KeyValueCache`: the capacity is used up", &[]);
        let put = |old: &Tensor, new: &Tensor| ops::dynamic_update_slice(old, new.cast(old.dtype()), &self.length, 2);
        Self { keys: put(&self.keys, keys), values: put(&self.values, values), length }
    }

    /// Returns the causal mask for the scores of the last `queries` positions, `[queries, capacity]`. It is true for
    /// the keys up to each query.
    #[track_caller]
    pub(super) fn seen(&self, queries: ms_core::tensor::Dim) -> Tensor {
        let first = &self.length - ops::size(queries, DType::I64);
        let own = (ops::arange(queries) + first).expand_dims(-1);
        ops::less_equal(ops::arange(self.keys.dim(2)), own)
    }
}
