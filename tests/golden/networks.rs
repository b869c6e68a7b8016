//! Applies attention and recurrent ops by the names of the golden cases.

use crate::case::Attributes;
use ms::Tensor;
use ms::ops::{self, AttentionOptions, BLOCKED_ATTENTION, BlockedAttentionAttrs};
use ms::tensor::apply1;

/// The number of queries in a block of attention. It is so small that most cases have several blocks.
const QUERIES: usize = 2;

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    Some(match op {
        "blocked_attention" => {
            let scale = attrs.optional_float("scale");
            let (causal, scaled) = (attrs.flag("causal"), scale.is_some());
            let attrs = BlockedAttentionAttrs::attrs(causal, scaled, scale.unwrap_or(1.0), QUERIES);
            vec![apply1(BLOCKED_ATTENTION.op(), &attrs, &x.iter().collect::<Vec<_>>())]
        }
        "gru" => {
            let (y, h) = ops::gru(&x[0], &x[1], (&x[2], &x[3]), x.get(4).zip(x.get(5)));
            vec![y, h]
        }
        "lstm" => {
            let (y, h, c) = ops::lstm(&x[0], (&x[1], &x[2]), (&x[3], &x[4]), x.get(5).zip(x.get(6)));
            vec![y, h, c]
        }
        "scaled_dot_product_attention" => {
            let options = AttentionOptions {
                mask: x.get(3).cloned(),
                causal: attrs.flag("causal"),
                scale: attrs.optional_float("scale"),
            };
            vec![ops::scaled_dot_product_attention(&x[0], &x[1], &x[2], &options)]
        }
        _ => return None,
    })
}
