//! Imports quantised operators: an integer `q` represents `(q - zero) scale`.

use super::Applied;
use super::images::{convolution_of, symmetric_padding};
use crate::dtype;
use ms_ops::tensor::{DType, Dim, Dims, Scalar};
use ms_ops::{Result, Tensor, ops};

/// Imports an operator on quantised numbers; returns `None` for any other operator.
///
/// # Errors
/// [`Code::Io`](ms_ir::Code::Io) for an unsupported form of the operator.
pub fn apply(node: &Applied<'_>) -> Result<Option<Vec<Tensor>>> {
    let x = || node.tensor(0);
    Ok(Some(match node.node.operator.as_str() {
        "QuantizeLinear" => vec![quantize(node)?],
        "DequantizeLinear" => vec![dequantize(node)?],
        "DynamicQuantizeLinear" => dynamic(&x()?),
        "MatMulInteger" => {
            let (a, b) = (centered(node, &x()?, 2, -2)?, centered(node, &node.tensor(1)?, 3, -1)?);
            vec![ops::matmul(a, b)]
        }
        "ConvInteger" => vec![convolution(node, [(0, 2), (1, 3)])?],
        "QLinearMatMul" => {
            let (a, b) = (centered(node, &x()?, 2, -2)?, centered(node, &node.tensor(3)?, 5, -1)?);
            let scales = scale(node, 1, &a, -2)? * scale(node, 4, &b, -1)?;
            let product = ops::matmul(&a, &b);
            let factor = scales / scale(node, 6, &product, -2)?;
            vec![requantized(node, product, factor, 7)?]
        }
        "QLinearConv" => {
            let mut sum = convolution(node, [(0, 2), (3, 5)])?;
            if let Some(bias) = node.optional(8) {
                sum = &sum + spread(node, &bias, sum.rank(), 1)?;
            }
            let factor = scale(node, 1, &sum, 1)? * scale(node, 4, &sum, 1)? / scale(node, 6, &sum, 1)?;
            vec![requantized(node, sum, factor, 7)?]
        }
        _ => return Ok(None),
    }))
}

/// Broadcasts a scale or zero point to a tensor of this rank: one number, or one for each position along an axis.
fn spread(node: &Applied<'_>, value: &Tensor, rank: usize, axis: isize) -> Result<Tensor> {
    let axis = if axis < 0 { axis + rank as isize } else { axis };
    let Some(axis) = usize::try_from(axis).ok().filter(|&it| it < rank.max(1)) else {
        return Err(node.unsupported("along an axis that is not there"));
    };
    match value.dims()[..] {
        [] => Ok(value.clone()),
        [size] if size == 1 => Ok(value.reshape(())),
        [size] => {
            let mut dims: Dims = std::iter::repeat_n(Dim::new(1), rank).collect();
            dims[axis] = size;
            Ok(ops::reshape(value, dims))
        }
        // The scale has one number for each row or column of every matrix of a batch.
        _ if value.rank() == rank => Ok(value.clone()),
        _ => Err(node.unsupported("with scales or zeros of another rank")),
    }
}

/// Returns a scale in f32.
fn scale(node: &Applied<'_>, at: usize, of: &Tensor, axis: isize) -> Result<Tensor> {
    spread(node, &node.tensor(at)?.cast(DType::F32), of.rank(), axis)
}

/// Returns an operand as i32, minus its zero point.
fn centered(node: &Applied<'_>, x: &Tensor, zero: usize, axis: isize) -> Result<Tensor> {
    if !x.dtype().is_int() || x.dtype().size() > 1 {
        return Err(node.unsupported(&format!("of {}", x.dtype())));
    }
    let wide = x.cast(DType::I32);
    match node.optional(zero) {
        Some(zero) => Ok(wide - spread(node, &zero.cast(DType::I32), x.rank().max(1), axis)?),
        None => Ok(wide),
    }
}

/// Convolves two operands, each given with the position of its zero point. Sums of byte products are exact in f64.
fn convolution(node: &Applied<'_>, [(x, x_zero), (w, w_zero)]: [(usize, usize); 2]) -> Result<Tensor> {
    let x = centered(node, &node.tensor(x)?, x_zero, 1)?.cast(DType::F64);
    let w = centered(node, &node.tensor(w)?, w_zero, 0)?.cast(DType::F64);
    let (x, padding) = symmetric_padding(node, x, Scalar::Float(0.0))?;
    Ok(convolution_of(node, &x, &w, None, padding)?.cast(DType::I32))
}

/// Rescales an exact integer sum to a quantised number.
fn requantized(node: &Applied<'_>, sum: Tensor, factor: Tensor, zero: usize) -> Result<Tensor> {
    let zero = node.tensor(zero)?;
    let dtype = zero.dtype();
    let zero = spread(node, &zero, sum.rank(), -2)?;
    let count = f64::powi(2.0, 8 * dtype.size() as i32);
    let low = if dtype.is_signed_int() { -count / 2.0 } else { 0.0 };
    let moved = ops::round(sum.cast(DType::F32) * factor) + zero.cast(DType::F32);
    Ok(ops::clamp(moved, low, low + count - 1.0).cast(dtype))
}

/// The scales of a `QuantizeLinear` or `DequantizeLinear`, and their axis and block.
struct Scales {
    scale: Tensor,
    zero: Tensor,
    axis: isize,
    block: usize,
}

impl Scales {
    /// Reads the scales of a node, whose zeros are zero of this dtype unless an operand has them.
    fn of(node: &Applied<'_>, dtype: DType) -> Result<Self> {
        let block = usize::try_from(node.int("block_size", 0)?);
        let Ok(block) = block else { return Err(node.unsupported("with blocks of a negative size")) };
        let scale = node.tensor(1)?;
        let zero = node.optional(2).unwrap_or_else(|| ops::full_of(scale.dims(), 0, dtype));
        // A list of one scale is one for the whole tensor.
        let is_one = block == 0 && scale.rank() == 1 && scale.dims()[0] == 1;
        let [scale, zero] = [scale, zero].map(|it| if is_one { it.reshape(()) } else { it });
        Ok(Self { scale, zero, axis: node.int("axis", 1)? as isize, block })
    }
}

fn quantize(node: &Applied<'_>) -> Result<Tensor> {
    let x = node.tensor(0)?;
    let named = match node.int("output_dtype", 0)? {
        0 => DType::U8,
        kind => dtype(kind as u64).ok_or_else(|| node.unsupported("to this kind of elements"))?,
    };
    let to = node.optional(2).map_or(named, |it| it.dtype());
    if !to.is_int() || to.size() > 2 {
        return Err(node.unsupported(&format!("to {to}")));
    }
    let Scales { scale, zero, axis, block } = Scales::of(node, to)?;
    Ok(ops::quantize(x, scale, zero, axis, block))
}

fn dequantize(node: &Applied<'_>) -> Result<Tensor> {
    let x = node.tensor(0)?;
    if !x.dtype().is_int() || x.dtype().size() > 4 || x.dtype() == DType::U32 {
        return Err(node.unsupported(&format!("of {}", x.dtype())));
    }
    let Scales { scale, zero, axis, block } = Scales::of(node, x.dtype())?;
    Ok(ops::dequantize(x, scale, zero, axis, block))
}

/// Quantises to u8 with the smallest scale whose range contains zero.
fn dynamic(x: &Tensor) -> Vec<Tensor> {
    const HIGHEST: f64 = 255.0;
    let all: Vec<isize> = (0..x.rank() as isize).collect();
    let low = ops::minimum(ops::min(x, &all), 0.0);
    let high = ops::maximum(ops::max(x, &all), 0.0);
    let scale = (high - &low) / HIGHEST;
    // Any scale represents a tensor of zeros.
    let scale = ops::select(ops::equal(&scale, 0.0), 1.0, &scale);
    let zero = ops::round(ops::clamp(-low / &scale, 0.0, HIGHEST)).cast(DType::U8);
    vec![ops::quantize(x, &scale, &zero, 0, 0), scale, zero]
}
