//! Applies losses by the names of the golden cases.

use crate::case::Attributes;
use ms::Tensor;
use ms::ops::{self, CrossEntropy, Reduction};

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let float = |key: &str| attrs.float(key);
    let loss = match op {
        "bce_with_logits" => ops::bce_with_logits(&x[0], &x[1], x.get(2), reduction(attrs)),
        "binary_cross_entropy" => ops::binary_cross_entropy(&x[0], &x[1], x.get(2), reduction(attrs)),
        "cosine_embedding_loss" => ops::cosine_embedding_loss(&x[0], &x[1], &x[2], float("margin"), reduction(attrs)),
        "cosine_similarity" => ops::cosine_similarity(&x[0], &x[1], attrs.int("axis"), float("eps")),
        "cross_entropy" => cross_entropy(attrs, x).of(&x[0], &x[1]),
        "huber_loss" => ops::huber_loss(&x[0], &x[1], float("delta"), reduction(attrs)),
        "kl_div" => ops::kl_div(&x[0], &x[1], attrs.flag("log_target"), reduction(attrs)),
        "l1_loss" => reduction(attrs).apply(&(&x[0] - &x[1]).abs()),
        "mse_loss" => reduction(attrs).apply(&(&x[0] - &x[1]).square()),
        "nll_loss" => cross_entropy(attrs, x).of_log_probabilities(&x[0], &x[1]),
        "smooth_l1_loss" => ops::smooth_l1_loss(&x[0], &x[1], float("beta"), reduction(attrs)),
        _ => return None,
    };
    Some(vec![loss])
}

pub fn reduction(attrs: &Attributes) -> Reduction {
    match attrs.text("reduction") {
        "batchmean" => Reduction::BatchMean,
        "mean" => Reduction::Mean,
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        other => panic!("no reduction is called {other}"),
    }
}

pub fn cross_entropy(attrs: &Attributes, x: &[Tensor]) -> CrossEntropy {
    CrossEntropy {
        reduction: reduction(attrs),
        weight: x.get(2).cloned(),
        ignore_index: attrs.has("ignore_index").then(|| attrs.int("ignore_index") as i64),
        label_smoothing: attrs.optional_float("label_smoothing").unwrap_or(0.0),
    }
}
