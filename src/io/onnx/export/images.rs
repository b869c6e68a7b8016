//! Convolutions and pooling.

use super::message::Attribute;
use super::translator::{Applied, Translator};
use ms_core::Result;
use ms_core::tensor::Dim;

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
    let spatial =
        |dims: &[Dim]| dims[2..].iter().map(|it| it.as_const().map(|it| it as i64)).collect::<Option<Vec<_>>>();
    let (Some(from), Some(taps)) = (spatial(&node.operand(0).dims), spatial(&node.operand(1).dims)) else {
        return node.refused(" where the sizes of images are symbolic");
    };
    let beyond = |at: usize| {
        let size = stride[at] * (from[at] - 1) + dilation[at] * (taps[at] - 1) + 1 - before[at] - after[at];
        node.ints("sizes")[at] - size
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

pub fn max_pool(to: &mut Translator<'_>, node: &Applied<'_>) -> String {
    let pads = [node.ints("before"), node.ints("after")].concat();
    let attributes = [
        ("kernel_shape", Attribute::Ints(node.ints("kernel"))),
        ("strides", Attribute::Ints(node.ints("stride"))),
        ("dilations", Attribute::Ints(node.ints("dilation"))),
        ("pads", Attribute::Ints(&pads)),
    ];
    to.with("MaxPool", &node.operands, &attributes)
}

pub fn average_pool(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let [kernel, stride, before, after, count] =
        ["kernel", "stride", "before", "after", "count"].map(|it| node.ints(it));
    let dims = &node.operand(0).dims[2..];
    let fits = |at: usize| {
        let size = dims[at].as_const().map(|it| it as i64 + before[at] + after[at] - kernel[at]);
        size.is_some_and(|it| it / stride[at] + 1 == count[at])
    };
    if !(0..kernel.len()).all(fits) {
        return node.refused(" with windows that are cut off, or images of symbolic sizes");
    }
    let pads = [before, after].concat();
    let attributes = [
        ("kernel_shape", Attribute::Ints(kernel)),
        ("strides", Attribute::Ints(stride)),
        ("pads", Attribute::Ints(&pads)),
        ("count_include_pad", Attribute::Int(node.flag("count_pad").into())),
    ];
    Ok(to.with("AveragePool", &node.operands, &attributes))
}

pub fn adaptive_average_pool(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let count = node.ints("count");
    if count.iter().all(|&it| it == 1) {
        return Ok(to.apply("GlobalAveragePool", &node.operands));
    }
    let sizes = node.operand(0).dims[2..].iter().zip(count);
    let kernel = sizes.map(|(size, &count)| {
        let size = size.as_const()? as i64;
        (count > 0 && size % count == 0).then(|| size / count)
    });
    match kernel.collect::<Option<Vec<i64>>>() {
        Some(kernel) => {
            let attributes = [("kernel_shape", Attribute::Ints(&kernel)), ("strides", Attribute::Ints(&kernel))];
            Ok(to.with("AveragePool", &node.operands, &attributes))
        }
        None => node.refused(" with windows of different sizes, or images of symbolic sizes"),
    }
}
