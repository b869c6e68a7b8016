//! Attention, recurrence, softmax, losses.

use crate::case::Attributes;
use ms::Tensor;
use ms::ops::{self, AttentionOptions, CrossEntropy, Reduction};

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    Some(match op {
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
        "softmax" => vec![ops::softmax(&x[0], attrs.int("axis"))],
        "log_softmax" => vec![ops::log_softmax(&x[0], attrs.int("axis"))],
        "cross_entropy" => {
            let loss = CrossEntropy {
                reduction: reduction(attrs),
                weight: x.get(2).cloned(),
                ignore_index: attrs.has("ignore_index").then(|| attrs.int("ignore_index") as i64),
                label_smoothing: attrs.optional_float("label_smoothing").unwrap_or(0.0),
            };
            vec![loss.of(&x[0], &x[1])]
        }
        _ => return None,
    })
}

fn reduction(attrs: &Attributes) -> Reduction {
    match attrs.text("reduction") {
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        "none" => Reduction::None,
        other => panic!("no reduction is called {other}"),
    }
}
