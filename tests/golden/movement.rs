//! Applies creation, views, movement, indexing and sorting by the names of the golden cases.

use crate::case::Attributes;
use ms::Tensor;
use ms::ops::{self, PadMode};
use ms::tensor::Index;

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let axis = || attrs.int("axis");
    Some(match op {
        "arange" => vec![ops::arange_of(
            attrs.int("start") as i64,
            attrs.int("stop") as i64,
            attrs.int("step") as i64,
            attrs.dtype("dtype"),
        )],
        "argsort" => vec![ops::argsort(&x[0], axis(), attrs.flag("descending"))],
        "concat" => vec![ops::concat(x, axis())],
        "diag" => vec![ops::diag(&x[0], attrs.int("k"))],
        "embedding" => {
            let padding = attrs.has("padding_idx").then(|| attrs.size("padding_idx"));
            vec![ops::embedding(&x[0], &x[1], padding)]
        }
        "expand" => vec![ops::broadcast_to(&x[0], attrs.sizes("shape"))],
        "expand_dims" => {
            vec![ops::expand_dims(&x[0], attrs.ints(if attrs.has("axes") { "axes" } else { "axis" }))]
        }
        "eye" => vec![ops::eye_of(attrs.size("n"), attrs.size("m"), attrs.int("k"), attrs.dtype("dtype"))],
        "flip" => vec![ops::flip(&x[0], attrs.ints("axes"))],
        "gather" => vec![ops::gather(&x[0], &x[1], axis())],
        "gather_nd" => vec![ops::gather_nd(&x[0], &x[1])],
        "index_add" => vec![ops::index_add(&x[0], &x[1], &x[2], axis())],
        "index_select" => vec![ops::index_select(&x[0], &x[1], axis())],
        "linspace" => vec![ops::linspace(attrs.float("start"), attrs.float("stop"), attrs.size("num"))],
        "masked_fill" => vec![ops::masked_fill(&x[0], &x[1], attrs.float("value"))],
        "one_hot" => vec![ops::one_hot(&x[0], attrs.size("num_classes"))],
        "pad" => vec![ops::pad(&x[0], &attrs.pairs("pads"), pad_mode(attrs))],
        "permute" => vec![ops::permute(&x[0], attrs.ints("axes"))],
        "repeat" => vec![repeat(attrs, &x[0])],
        "reshape" => vec![ops::reshape(&x[0], &attrs.ints("shape")[..])],
        "roll" => vec![ops::roll(&x[0], &attrs.ints("shifts"), attrs.ints("axes"))],
        "scatter" => vec![ops::scatter(&x[0], &x[1], &x[2], axis())],
        "scatter_add" => vec![ops::scatter_add(&x[0], &x[1], &x[2], axis())],
        "slice" => vec![x[0].i(&slices(attrs)[..])],
        "sort" => pair(ops::sort(&x[0], axis(), attrs.flag("descending"))),
        "split" if attrs.has("sections") => ops::split(&x[0], attrs.size("sections"), axis()),
        "split" => ops::split_sizes(&x[0], &attrs.sizes("sizes"), axis()),
        "squeeze" => vec![ops::squeeze(&x[0], attrs.ints("axes"))],
        "stack" => vec![ops::stack(x, axis())],
        "take_along_axis" => vec![ops::take_along_axis(&x[0], &x[1], axis())],
        "tile" => vec![ops::tile(&x[0], &attrs.sizes("reps"))],
        "topk" => pair(ops::topk(&x[0], attrs.size("k"), axis(), attrs.flag("largest"))),
        "transpose" => vec![ops::transpose(&x[0], attrs.int("axis0"), attrs.int("axis1"))],
        "tril" => vec![ops::tril(&x[0], attrs.int("k"))],
        "triu" => vec![ops::triu(&x[0], attrs.int("k"))],
        _ => return None,
    })
}

pub fn pair((first, second): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![first, second]
}

fn pad_mode(attrs: &Attributes) -> PadMode {
    match attrs.text("mode") {
        "constant" => PadMode::Constant(attrs.float("value").into()),
        "reflect" => PadMode::Reflect,
        "replicate" => PadMode::Edge,
        other => panic!("no padding is called {other}"),
    }
}

fn repeat(attrs: &Attributes, x: &Tensor) -> Tensor {
    if !attrs.has("axis") {
        ops::repeat_flat(x, attrs.size("repeats"))
    } else if attrs.is_list("repeats") {
        ops::repeat_each(x, &attrs.sizes("repeats"), attrs.int("axis"))
    } else {
        ops::repeat(x, attrs.size("repeats"), attrs.int("axis"))
    }
}

pub fn slices(attrs: &Attributes) -> Vec<Index> {
    let bounds = attrs.optional_ints("starts").into_iter().zip(attrs.optional_ints("ends"));
    let slice = |((start, stop), step)| Index::Slice { start, stop, step };
    bounds.zip(attrs.ints("steps")).map(slice).collect()
}
