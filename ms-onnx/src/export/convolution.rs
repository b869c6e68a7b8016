//! Exports convolutions and their gradients.

use super::message::Attribute;
use super::translator::{Applied, Translator};
use ms_ir::Result;
use ms_ops::tensor::Dim;

pub fn convolution(to: &mut Translator<'_>, node: &Applied<'_>) -> String {
    let pads = [node.ints("before"), node.ints("after")].concat();
    let attributes = [
        ("strides", Attribute::Ints(node.ints("stride"))),
        ("dilations", Attribute::Ints(node.ints("dilation"))),
        ("pads", Attribute::Ints(&pads)),
        ("group", Attribute::Int(node.int("groups"))),
    ];
    to.with("Conv", &node.operands, &attributes)
}

pub fn transposed_convolution(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let [stride, dilation, before, after] = ["stride", "dilation", "before", "after"].map(|it| node.ints(it));
    let [from, taps] = [0, 1].map(|at| constants(&node.operand(at).dims[2..]));
    let (Some(from), Some(taps), Some(sizes)) = (from, taps, constants(&node.dims("sizes"))) else {
        return node.refused(" where the sizes of images are symbolic");
    };
    let beyond = |at: usize| {
        let size = stride[at] * (from[at] - 1) + dilation[at] * (taps[at] - 1) + 1 - before[at] - after[at];
        sizes[at] - size
    };
    let beyond: Vec<i64> = (0..stride.len()).map(beyond).collect();
    let pads = [before, after].concat();
    let attributes = [
        ("strides", Attribute::Ints(stride)),
        ("dilations", Attribute::Ints(dilation)),
        ("pads", Attribute::Ints(&pads)),
        ("output_padding", Attribute::Ints(&beyond)),
        ("group", Attribute::Int(node.int("groups"))),
    ];
    Ok(to.with("ConvTranspose", &node.operands, &attributes))
}

/// Exports backward-weights: a convolution of the input with the output gradient, with batch and channel axes swapped.
pub fn weight_gradient(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let [stride, dilation, before, after] = ["stride", "dilation", "before", "after"].map(|it| node.ints(it));
    let (x, g, groups) = (&node.operand(0).dims, &node.operand(1).dims, node.int("groups") as usize);
    let [sizes, windows] = [&x[2..], &g[2..]].map(constants);
    let (Some(sizes), Some(windows)) = (sizes, windows) else {
        return node.refused(" where the sizes of images are symbolic");
    };
    let spatial = 2..x.len() as i64;
    let swapped: Vec<i64> = [1, 0].into_iter().chain(spatial.clone()).collect();
    let split: Vec<Dim> = [x[0], Dim::new(groups), x[1] / groups].iter().chain(&x[2..]).copied().collect();
    let images = to.reshape(node.operands[0], &split)?;
    let order: Vec<i64> = [2, 1, 0].into_iter().chain(spatial.clone().map(|it| it + 1)).collect();
    let images = to.with("Transpose", &[&images], &[("perm", Attribute::Ints(&order))]);
    let merged: Vec<Dim> = [x[1] / groups, x[0] * Dim::new(groups)].iter().chain(&x[2..]).copied().collect();
    let images = to.reshape(&images, &merged)?;
    let weights = to.with("Transpose", &[node.operands[1]], &[("perm", Attribute::Ints(&swapped))]);
    let pads = [before, after].concat();
    let attributes = [
        ("strides", Attribute::Ints(dilation)),
        ("dilations", Attribute::Ints(stride)),
        ("pads", Attribute::Ints(&pads)),
        ("group", Attribute::Int(groups as i64)),
    ];
    let mut result = to.with("Conv", &[&images, &weights], &attributes);
    // Positions after the last window belong to no kernel tap.
    let Some(kernel) = constants(&node.dims("sizes")) else {
        return node.refused(" where the sizes of kernels are symbolic");
    };
    let rest = |at: usize| sizes[at] + before[at] + after[at] - stride[at] * (windows[at] - 1) - 1;
    if (0..kernel.len()).any(|at| rest(at) / dilation[at] + 1 != kernel[at]) {
        let axes: Vec<i64> = spatial.collect();
        let (starts, ends, axes) = (to.list(&vec![0; kernel.len()])?, to.list(&kernel)?, to.list(&axes)?);
        result = to.apply("Slice", &[&result, &starts, &ends, &axes]);
    }
    Ok(to.with("Transpose", &[&result], &[("perm", Attribute::Ints(&swapped))]))
}

/// Returns the sizes if none is symbolic.
pub(super) fn constants(dims: &[Dim]) -> Option<Vec<i64>> {
    dims.iter().map(|it| it.as_const().map(|it| it as i64)).collect()
}
