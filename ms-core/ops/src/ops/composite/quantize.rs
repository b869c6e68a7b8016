//! Quantisation, as ONNX's `QuantizeLinear` and `DequantizeLinear` define it: an integer `q` represents
//! `(q - zero) scale`.

use crate::ops::core::axis::{named, refusal};
use crate::ops::core::wide::widened;
use crate::ops::primitive::slice::narrow;
use crate::ops::{
    Batching, Derivative, Sample, SampleInput, cast, clamp, normalize_axis, repeat, reshape, round, select,
    stop_gradient,
};
use crate::tensor::{AsTensor, AttrRange, Attrs, DType, Dim, Dims, Tensor, apply1, promote, refused};
use ms_ir::error::{Code, Error, OrRaise, Result, called};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`QUANTIZE`] and [`DEQUANTIZE`]: the axis of scales, and the positions along it that share
    /// one. Scales are not shared if that is zero.
    struct QuantizeAttrs { axis: usize where 0..=AttrRange::FACTOR, block: usize where 0..=AttrRange::FACTOR }
}

composite! {
    /// Represents floats by integers of the dtype of the third operand: `x / scale`, rounded half to even, plus `zero`,
    /// saturated.
    QUANTIZE = 896: "quantize", QuantizeAttrs::DECLARED;
    body |attrs, inputs| {
        let &[x, scale, zero] = inputs else { unreachable!("`quantize` has three operands") };
        check(x, scale, zero, attrs).map_err(|it| named("quantize", inputs, it)).or_raise();
        // The conversion saturates here, but not in every runtime that an exported body runs on.
        let [low, high] = range(zero.dtype());
        smallvec![cast(clamp(shifted(x, scale, zero, attrs), low, high), zero.dtype())]
    };
    derivative Derivative::Zero, finite: true;
    batching Batching::Partial(|it| takes_lanes(it.attrs, it.mapped).then(|| it.apply(&it.shifted("axis"), it.inputs)));
    samples || samples(|float, _| float);
}

composite! {
    /// Returns the floats that integers represent: `(q - zero) scale`, in the dtype of the scale.
    DEQUANTIZE = 897: "dequantize", QuantizeAttrs::DECLARED;
    body |attrs, inputs| {
        let &[q, scale, zero] = inputs else { unreachable!("`dequantize` has three operands") };
        check(q, scale, zero, attrs).map_err(|it| named("dequantize", inputs, it)).or_raise();
        let [factors, zeros] = [scale, zero].map(|it| spread(it, q, attrs));
        // The difference of narrow integers needs one bit more.
        let centered = cast(q, DType::I32) - cast(zeros, DType::I32);
        smallvec![cast(centered, scale.dtype()) * factors]
    };
    derivative Derivative::Body, finite: true;
    batching Batching::Partial(|it| takes_lanes(it.attrs, it.mapped).then(|| it.apply(&it.shifted("axis"), it.inputs)));
    samples || {
        let mut all = samples(|_, integer| integer);
        // Sums of products are of i32.
        all.push(sample(DType::I32, DType::F32, &[4, 2], &[4], [0, 0], DType::I32));
        all
    };
}

fn samples(dtype: fn(DType, DType) -> DType) -> Vec<Sample> {
    let floats = [DType::F32, DType::F64, DType::F16, DType::BF16];
    let integers = [DType::I8, DType::U8, DType::I16, DType::U16];
    let of = |float, integer, shape: &[usize], scales: &[usize], form| {
        sample(dtype(float, integer), float, shape, scales, form, integer)
    };
    let mut all: Vec<Sample> =
        floats.iter().zip(integers).map(|(&float, integer)| of(float, integer, &[2, 3], &[3], [1, 0])).collect();
    all.push(of(DType::F32, DType::I8, &[2, 3], &[], [0, 0]));
    // The last block of an axis may be shorter.
    all.push(of(DType::F32, DType::U8, &[5, 2], &[3, 2], [0, 2]));
    all.push(of(DType::F32, DType::I8, &[2, 0], &[0], [1, 0]));
    all
}

/// Creates a sample of an operand `x`, with scales of this shape, and zeros of `integer`.
fn sample(
    x: DType,
    float: DType,
    shape: &[usize],
    scales: &[usize],
    [axis, block]: [usize; 2],
    integer: DType,
) -> Sample {
    let low = if x.is_float() || x.is_signed_int() { -3.0 } else { 0.0 };
    Sample::new([
        SampleInput::of(x, shape, low, 9.0),
        SampleInput::of(float, scales, 0.25, 0.75),
        SampleInput::of(integer, scales, 0.0, 4.0),
    ])
    .attrs(QuantizeAttrs::attrs(axis, block))
}

/// Whether one node takes the operands with lanes: each keeps its form.
fn takes_lanes(attrs: &Attrs, mapped: &[bool]) -> bool {
    let is_blocked = QuantizeAttrs::of(attrs).block() > 0;
    if is_blocked { mapped.iter().all(|it| *it) } else { mapped[0] && !mapped[1] && !mapped[2] }
}

/// Checks that scales and zeros have one shape, in one of three forms. A scalar is for all of `x`, and a list has one
/// number for each position along the axis. A tensor of the rank of `x` has one for each block along the axis.
fn check(x: &Tensor, scale: &Tensor, zero: &Tensor, attrs: &Attrs) -> Result<()> {
    let it = QuantizeAttrs::of(attrs);
    let (axis, block) = (it.axis(), it.block());
    let refused = |message: String| Err(Error::new(Code::Shape, message));
    if differ(&scale.dims(), &zero.dims()) {
        return refused(format!("the scales are {}, and the zeros {}", scale.ty(), zero.ty()));
    }
    if scale.rank() == 0 && block == 0 {
        return Ok(());
    }
    let Some(&size) = x.dims().get(axis) else {
        return refused(format!("{} has no axis {axis}", x.ty()));
    };
    let (wanted, form) = match size.as_const() {
        _ if block == 0 => (Dims::from_iter([size]), format!("one scale for each position along axis {axis}")),
        Some(size) => (replaced(&x.dims(), axis, size.div_ceil(block).into()), blocks(block, axis)),
        // A symbolic size is compared when it is known.
        None => (replaced(&x.dims(), axis, scale.dims().get(axis).copied().unwrap_or(size)), blocks(block, axis)),
    };
    match differ(&scale.dims(), &wanted) {
        false => Ok(()),
        true => refused(format!("the scales are {}, but {form} of {} are needed", scale.ty(), x.ty())),
    }
}

fn blocks(block: usize, axis: usize) -> String {
    format!("one scale for each block of {block} positions along axis {axis}")
}

fn replaced(dims: &[Dim], axis: usize, size: Dim) -> Dims {
    dims.iter().enumerate().map(|(at, it)| if at == axis { size } else { *it }).collect()
}

/// Returns whether dimensions differ, as far as their sizes are known.
fn differ(a: &[Dim], b: &[Dim]) -> bool {
    let known = |(a, b): (&Dim, &Dim)| matches!((a.as_const(), b.as_const()), (Some(a), Some(b)) if a != b);
    a.len() != b.len() || a.iter().zip(b).any(known)
}

/// Broadcasts scales or zeros to the shape of `x`, or to one that broadcasts to it.
#[track_caller]
fn spread(value: &Tensor, x: &Tensor, attrs: &Attrs) -> Tensor {
    let it = QuantizeAttrs::of(attrs);
    match (value.rank(), it.block()) {
        (0, 0) => value.clone(),
        (_, 0) => {
            let ones: Dims = x.dims().iter().map(|_| Dim::new(1)).collect();
            reshape(value, replaced(&ones, it.axis(), value.dims()[0]))
        }
        (_, block) => narrow(&repeat(value, block, it.axis() as isize), it.axis(), 0, x.dims()[it.axis()]),
    }
}

/// Returns the attributes for operands. A scalar scale has no axis.
fn attrs_of(op: &str, operands: [&Tensor; 3], axis: isize, block: usize) -> Result<Attrs> {
    let axis = match operands[1].rank() {
        0 if block == 0 => 0,
        _ => normalize_axis(axis, operands[0].rank()).map_err(|it| named(op, &operands, it))?,
    };
    Ok(QuantizeAttrs::attrs(axis, block))
}

/// Represents numbers by integers of the dtype of `zero`, which is i8, u8, i16 or u16: `x / scale`, rounded half to
/// even, plus `zero`, saturated. NaN becomes the integer 0. This is ONNX's `QuantizeLinear`.
///
/// `scale` and `zero` have one shape, which is one of three:
///
/// - `[]`: one scale for all of `x`. `axis` is not read, and `block` is zero.
/// - `[n]`: one scale for each position along `axis`, which has size `n`; `block` is zero.
/// - the shape of `x` with `ceil(n / block)` in place of the size `n` of `axis`: one scale for each block of `block`
///   positions along `axis`.
///
/// The result is constant almost everywhere, so it has no gradient; see [`fake_quantize`]. The quotient is computed in
/// the promoted dtype of `x` and `scale`, and in f32 for f16 and bf16.
///
/// # Panics
/// Raises [`Code::DType`] unless `scale` is of floats, and for another dtype of `zero`, [`Code::Shape`] for scales of
/// another form, and [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[0.0, 1.0, 1000.0], [0.5, 1.5, -1000.0]];
/// assert_eq!(ops::quantize(&x, tensor![2.0].squeeze(0), tensor![128u8].squeeze(0), 0, 0).to_vec::<u8>(), [
///     128, 128, 255, 128, 129, 0
/// ]);
/// // A scale for each row.
/// let q = ops::quantize(&x, tensor![1.0, 0.5], tensor![0i8, 0], 0, 0);
/// assert_eq!(q.to_vec::<i8>(), [0, 1, 127, 1, 3, -128]);
/// // A scale for each block of two columns.
/// let q = ops::quantize(&x, tensor![[1.0, 100.0], [0.5, 100.0]], tensor![[0i8, 0], [0, 0]], 1, 2);
/// assert_eq!(q.to_vec::<i8>(), [0, 1, 10, 1, 3, -10]);
/// ```
#[track_caller]
pub fn quantize(x: impl AsTensor, scale: impl AsTensor, zero: impl AsTensor, axis: isize, block: usize) -> Tensor {
    let _called = called("quantize");
    let (x, scale, zero) = (x.as_tensor(), scale.as_tensor(), zero.as_tensor());
    quantize_to(&x, &scale, &zero, axis, block)
}

#[track_caller]
fn quantize_to(x: &Tensor, scale: &Tensor, zero: &Tensor, axis: isize, block: usize) -> Tensor {
    propagate_poison!(x, scale, zero);
    if !zero.dtype().is_int() || zero.dtype().size() > 2 {
        let message = format!("the zeros are {}, but numbers are quantised to i8, u8, i16 or u16", zero.dtype());
        return refused(refusal("quantize", &[x, scale, zero], Code::DType, message));
    }
    or_poison!(check_scale("quantize", [x, scale, zero]));
    let dtype = promote(x.dtype(), scale.dtype());
    let attrs = or_poison!(attrs_of("quantize", [x, scale, zero], axis, block));
    apply1(QUANTIZE.op(), &attrs, &[&cast(x, dtype), &cast(scale, dtype), zero])
}

/// Returns the numbers that integers represent: `(q - zero) scale`, in the dtype of `scale`. This is ONNX's
/// `DequantizeLinear`.
///
/// `q` is of i8, u8, i16, u16 or i32, and `zero` of the same dtype. The product is computed in f32 for f16 and bf16.
/// The shapes of `scale` and `zero`, `axis` and `block` are those of [`quantize`]. The result is linear in `scale`,
/// which has a gradient.
///
/// # Panics
/// Raises [`Code::DType`] unless `scale` is of floats, and for another dtype of `q` or `zero`, [`Code::Shape`] for
/// scales of another form, and [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// let q = tensor![[0u8, 3], [128, 255]];
/// let x = ops::dequantize(&q, tensor![2.0, 1.0], tensor![128u8, 128], 0, 0);
/// assert_eq!(x.to_vec::<f32>(), [-256.0, -250.0, 0.0, 127.0]);
/// ```
#[track_caller]
pub fn dequantize(q: impl AsTensor, scale: impl AsTensor, zero: impl AsTensor, axis: isize, block: usize) -> Tensor {
    let _called = called("dequantize");
    let (q, scale, zero) = (q.as_tensor(), scale.as_tensor(), zero.as_tensor());
    dequantize_from(&q, &scale, &zero, axis, block)
}

#[track_caller]
fn dequantize_from(q: &Tensor, scale: &Tensor, zero: &Tensor, axis: isize, block: usize) -> Tensor {
    propagate_poison!(q, scale, zero);
    let dtype = q.dtype();
    if !dtype.is_int() || dtype.size() > 4 || dtype == DType::U32 || zero.dtype() != dtype {
        let message =
            format!("{dtype} with zeros of {}, but it takes i8, u8, i16, u16 or i32 with the same", zero.dtype());
        return refused(refusal("dequantize", &[q, scale, zero], Code::DType, message));
    }
    or_poison!(check_scale("dequantize", [q, scale, zero]));
    let attrs = or_poison!(attrs_of("dequantize", [q, scale, zero], axis, block));
    apply1(DEQUANTIZE.op(), &attrs, &[q, scale, zero])
}

fn check_scale(op: &str, operands: [&Tensor; 3]) -> Result<()> {
    let dtype = operands[1].dtype();
    match dtype.is_float() {
        true => Ok(()),
        false => Err(refusal(op, &operands, Code::DType, format!("the scales are {dtype}, not floats"))),
    }
}

/// Returns the numbers next to `x` that integers can represent, [`dequantize`] of [`quantize`], in the dtype of
/// `scale`. It simulates quantisation in training.
///
/// The gradient is that of PyTorch's `fake_quantize`: it passes straight through to `x` where `x / scale`, rounded,
/// plus
/// `zero` is in the range of the integers, and is zero elsewhere. `scale` has no gradient.
///
/// # Panics
/// Panics in the cases of [`quantize`].
///
/// ```
/// use ms_core::{ops, tensor};
/// let (scale, zero) = (tensor![0.5].squeeze(0), tensor![0i8].squeeze(0));
/// let x = tensor![0.3, -0.8, 100.0];
/// assert_eq!(ops::fake_quantize(&x, &scale, &zero, 0, 0).to_vec::<f32>(), [0.5, -1.0, 63.5]);
/// ```
#[track_caller]
pub fn fake_quantize(x: impl AsTensor, scale: impl AsTensor, zero: impl AsTensor, axis: isize, block: usize) -> Tensor {
    let _called = called("fake_quantize");
    let (x, scale, zero) = (x.as_tensor(), stop_gradient(&*scale.as_tensor()), zero.as_tensor());
    let (x, zero) = (&*x, &*zero);
    let y = &dequantize_from(&quantize_to(x, &scale, zero, axis, block), &scale, zero, axis, block);
    propagate_poison!(y);
    let attrs = or_poison!(attrs_of("fake_quantize", [x, &scale, zero], axis, block));
    let integers = shifted(&widened(x), &widened(&scale), zero, &attrs);
    let [low, high] = range(zero.dtype());
    let is_inside = integers.ge(low).logical_and(integers.le(high));
    // Zero, with the gradient of `x`.
    let own = cast(x, y.dtype());
    y + select(is_inside, &own - stop_gradient(&own), 0.0)
}

/// Returns the smallest and the largest integer of a dtype of at most two bytes.
fn range(dtype: DType) -> [f64; 2] {
    let count = f64::powi(2.0, 8 * dtype.size() as i32);
    let low = if dtype.is_signed_int() { -count / 2.0 } else { 0.0 };
    [low, low + count - 1.0]
}

/// Returns the integers that represent `x`, as floats that may exceed their range.
#[track_caller]
fn shifted(x: &Tensor, scale: &Tensor, zero: &Tensor, attrs: &Attrs) -> Tensor {
    let [factors, zeros] = [scale, zero].map(|it| spread(it, x, attrs));
    let integers = round(x / factors);
    let zeros = cast(zeros, integers.dtype());
    integers + zeros
}

impl Tensor {
    /// Represents numbers by integers, see [`quantize`].
    #[track_caller]
    pub fn quantize(&self, scale: impl AsTensor, zero: impl AsTensor, axis: isize, block: usize) -> Self {
        quantize(self, scale, zero, axis, block)
    }

    /// Returns the numbers that integers represent, see [`dequantize`].
    #[track_caller]
    pub fn dequantize(&self, scale: impl AsTensor, zero: impl AsTensor, axis: isize, block: usize) -> Self {
        dequantize(self, scale, zero, axis, block)
    }

    /// Simulates quantisation, see [`fake_quantize`].
    #[track_caller]
    pub fn fake_quantize(&self, scale: impl AsTensor, zero: impl AsTensor, axis: isize, block: usize) -> Self {
        fake_quantize(self, scale, zero, axis, block)
    }
}
