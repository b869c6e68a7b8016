//! Applies softmax and normalisations by the names of the golden cases.

use crate::case::Attributes;
use ms::Tensor;
use ms::ops::{self, BatchStatistics};

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let eps = || attrs.float("eps");
    let begin = || attrs.int("begin_norm_axis");
    Some(match op {
        "batch_norm" => batch_norm(attrs, x),
        "group_norm" => vec![ops::group_norm(&x[0], attrs.size("num_groups"), &x[1], &x[2], eps())],
        "instance_norm" => vec![ops::instance_norm(&x[0], &x[1], &x[2], eps())],
        "layer_norm" => vec![ops::layer_norm(&x[0], x.get(1), x.get(2), begin(), eps())],
        "log_softmax" => vec![ops::log_softmax(&x[0], attrs.int("axis"))],
        "rms_norm" => vec![ops::rms_norm(&x[0], &x[1], begin(), eps())],
        "softmax" => vec![ops::softmax(&x[0], attrs.int("axis"))],
        _ => return None,
    })
}

/// Applies batch normalisation. In training, the results are followed by the updated statistics.
fn batch_norm(attrs: &Attributes, x: &[Tensor]) -> Vec<Tensor> {
    let kept = BatchStatistics { mean: x[3].clone(), var: x[4].clone() };
    let eps = attrs.float("eps");
    if !attrs.flag("training") {
        return vec![ops::batch_norm(&x[0], &x[1], &x[2], Some(&kept), eps)];
    }
    let next = kept.updated(&x[0], attrs.float("momentum"));
    vec![ops::batch_norm(&x[0], &x[1], &x[2], None, eps), next.mean, next.var]
}
