//! Imports convolution, pooling and normalisation operators.

use super::Applied;
use ms_ops::ops::{self, ConvOptions, PadMode, PoolOptions};
use ms_ops::tensor::{Dim, Scalar, Shape};
use ms_ops::{Result, Tensor};

/// Imports an operator on images; returns `None` for any other operator.
///
/// # Errors
/// [`Code::Io`](ms_ir::Code::Io) for an unsupported form of the operator.
pub fn apply(node: &Applied<'_>) -> Result<Option<Tensor>> {
    let x = || node.tensor(0);
    Ok(Some(match node.node.operator.as_str() {
        "Conv" => convolution(node, x()?)?,
        "ConvTranspose" => transposed_convolution(node, &x()?)?,
        "MaxPool" if node.node.outputs.len() == 1 => {
            let lowest = Scalar::Float(f64::NEG_INFINITY);
            let (x, options) = pooling(node, x()?, lowest)?;
            ops::max_pool(&x, &options)
        }
        "AveragePool" => average_pool(node, x()?)?,
        "GlobalAveragePool" => {
            let x = x()?;
            ops::mean(&x, ops::keepdims((2..x.rank() as isize).collect::<Vec<_>>()))
        }
        "GlobalMaxPool" => {
            let x = x()?;
            ops::max(&x, ops::keepdims((2..x.rank() as isize).collect::<Vec<_>>()))
        }
        "BatchNormalization" if node.int("training_mode", 0)? == 0 => {
            let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|at| node.tensor(at));
            let x = x()?;
            let along = |it: Result<Tensor>| {
                let sizes: Vec<usize> = std::iter::repeat_n(1, x.rank().saturating_sub(2)).collect();
                let channels = it?;
                let size = channels.dims().iter().copied().product::<Dim>().as_const();
                let size = size.ok_or_else(|| node.unsupported("of a symbolic number of channels"))?;
                Ok(channels.reshape([&[size][..], &sizes].concat().as_slice()))
            };
            let scale = along(scale)? * ops::rsqrt(along(variance)? + node.float("epsilon", 1e-5)?);
            (&x - along(mean)?) * scale + along(bias)?
        }
        "InstanceNormalization" => {
            ops::instance_norm(x()?, node.tensor(1)?, node.tensor(2)?, node.float("epsilon", 1e-5)?)
        }
        "Pad" => pad(node, &x()?)?,
        _ => return Ok(None),
    }))
}

fn sizes(all: Vec<i64>) -> Vec<usize> {
    all.into_iter().map(|it| it.max(0) as usize).collect()
}

/// Returns the padding before and after each spatial axis.
fn pads(node: &Applied<'_>, spatial: usize) -> Result<(Vec<usize>, Vec<usize>)> {
    match node.text("auto_pad", "NOTSET")?.as_str() {
        "NOTSET" | "VALID" => {}
        _ => return Err(node.unsupported("with padding that it computes itself")),
    }
    let all = sizes(node.ints("pads")?.unwrap_or_else(|| vec![0; 2 * spatial]));
    match all.len() == 2 * spatial {
        true => Ok((all[..spatial].to_vec(), all[spatial..].to_vec())),
        false => Err(node.unsupported("with padding of other axes")),
    }
}

/// Makes padding symmetric: pads `x` itself if it is not, and returns `x` with the remaining padding.
pub fn symmetric_padding(node: &Applied<'_>, x: Tensor, value: Scalar) -> Result<(Tensor, Vec<usize>)> {
    let spatial = x.rank().saturating_sub(2);
    let (before, after) = pads(node, spatial)?;
    if before == after {
        return Ok((x, before));
    }
    let widths = before.iter().zip(&after).map(|(&before, &after)| (before, after));
    let widths: Vec<(usize, usize)> = [(0, 0), (0, 0)].into_iter().chain(widths).collect();
    Ok((ops::pad(&x, &widths, PadMode::Constant(value)), vec![0; spatial]))
}

fn convolution(node: &Applied<'_>, x: Tensor) -> Result<Tensor> {
    let (x, padding) = symmetric_padding(node, x, Scalar::Float(0.0))?;
    convolution_of(node, &x, &node.tensor(1)?, node.optional(2).as_ref(), padding)
}

/// Convolves `x` with these weights, with the strides, dilations and groups of the node.
pub fn convolution_of(
    node: &Applied<'_>,
    x: &Tensor,
    weights: &Tensor,
    bias: Option<&Tensor>,
    padding: Vec<usize>,
) -> Result<Tensor> {
    Ok(ops::conv(x, weights, bias, &options(node, x, padding)?))
}

fn options(node: &Applied<'_>, x: &Tensor, padding: Vec<usize>) -> Result<ConvOptions> {
    let ones = vec![1; x.rank().saturating_sub(2)];
    let list = |name: &str| Ok(node.ints(name)?.map_or_else(|| ones.clone(), sizes));
    Ok(ConvOptions::new(ones.len())
        .stride(&list("strides")?[..])
        .dilation(&list("dilations")?[..])
        .padding(&padding[..])
        .groups(node.int("group", 1)?.max(1) as usize))
}

fn transposed_convolution(node: &Applied<'_>, x: &Tensor) -> Result<Tensor> {
    let spatial = x.rank().saturating_sub(2);
    let (before, after) = pads(node, spatial)?;
    if before != after || node.ints("output_shape")?.is_some() {
        return Err(node.unsupported("with more padding on one side, or a shape of the result"));
    }
    let beyond = node.ints("output_padding")?.map_or_else(|| vec![0; spatial], sizes);
    let options = options(node, x, before)?;
    Ok(ops::conv_transpose(x, node.tensor(1)?, node.optional(2).as_ref(), &options, &beyond[..]))
}

pub fn pooling(node: &Applied<'_>, x: Tensor, value: Scalar) -> Result<(Tensor, PoolOptions)> {
    let kernel = sizes(node.ints("kernel_shape")?.unwrap_or_default());
    let ones = vec![1; kernel.len()];
    let list = |name: &str| Ok(node.ints(name)?.map_or_else(|| ones.clone(), sizes));
    let (before, after) = pads(node, kernel.len())?;
    let dims = x.dims();
    if before != after
        && let Some(along) = dims.get(2..)
    {
        // The op sees one-sided padding as elements, so it cannot check these windows.
        let [stride, dilation] = [list("strides")?, list("dilations")?].map(Shape::from_vec);
        let [before, after] = [before, after].map(Shape::from_vec);
        ops::Window { stride, dilation, before, after }.check_elements(along, &kernel)?;
    }
    let (x, padding) = symmetric_padding(node, x, value)?;
    let options = PoolOptions::new(kernel.len(), &kernel[..])
        .stride(&list("strides")?[..])
        .dilation(&list("dilations")?[..])
        .padding(&padding[..])
        .ceil_mode(node.int("ceil_mode", 0)? != 0);
    Ok((x, options))
}

fn average_pool(node: &Applied<'_>, x: Tensor) -> Result<Tensor> {
    let includes = node.int("count_include_pad", 0)? != 0;
    let (before, after) = pads(node, x.rank().saturating_sub(2))?;
    if before != after && !includes {
        return Err(node.unsupported("with more padding on one side that is not counted"));
    }
    let (x, options) = pooling(node, x, Scalar::Float(0.0))?;
    Ok(ops::avg_pool(&x, &options.count_include_pad(includes)))
}

fn pad(node: &Applied<'_>, x: &Tensor) -> Result<Tensor> {
    let widths = node.list(1, "pads")?.unwrap_or_default();
    if widths.len() != 2 * x.rank()
        || widths.iter().any(|&it| it < 0)
        || node.operands.get(3).is_some_and(Option::is_some)
    {
        return Err(node.unsupported("of some axes, or that removes elements"));
    }
    let value = match node.operands.get(2) {
        Some(Some(value)) => value.scalar().ok_or_else(|| node.unsupported("with a value that depends on data"))?,
        _ => Scalar::Int(0),
    };
    let mode = match node.text("mode", "constant")?.as_str() {
        "constant" => PadMode::Constant(value),
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        "wrap" => PadMode::Wrap,
        _ => return Err(node.unsupported("in this mode")),
    };
    let widths = sizes(widths);
    let (before, after) = widths.split_at(x.rank());
    let widths: Vec<(usize, usize)> = before.iter().copied().zip(after.iter().copied()).collect();
    Ok(ops::pad(x, &widths, mode))
}
