//! Ops as objects, as in MindSpore.
//!
//! ```
//! use ms_core::{ops, tensor};
//! let x = tensor![1., 2., 4.];
//! assert_eq!(ops::Pow::new().call(&x, 3.).to_vec::<f32>(), [1., 8., 64.]);
//! assert_eq!(ops::pow(&x, 3.).to_vec::<f32>(), [1., 8., 64.]);
//! ```

use crate::ops::composite::nn::{BatchStatistics, CrossEntropy, Reduction};
use crate::ops::{ConvOptions, IntoAxes, IntoOperand, Keepdims, PoolOptions, ReduceAxes};
use crate::tensor::{AsTensor, DType, IntoDims, NewShape, Scalar, Tensor, refused};
use ms_ir::error::{Code, Error};

/// Declares the objects without attributes: functions whose arguments are all tensors.
macro_rules! primitive_objects {
    ($($object:ident $function:ident($($x:ident: $operand:ty),*);)*) => {
        primitives_with_attributes! {$(
            $object() $function($($x: $operand),*) -> Tensor = crate::ops::$function($($x),*);
        )*}
    };
}

/// Declares the objects with attributes: `Name(attributes) function(operands) -> result = application`.
macro_rules! primitives_with_attributes {
    ($(
        $object:ident($($field:ident: $ty:ty),*) $function:ident($($x:ident: $operand:ty),*) -> $result:ty = $apply:expr;
    )*) => {$(
        #[doc = concat!("[`", stringify!($function), "`](crate::ops::", stringify!($function), ") as an object.")]
        #[derive(Clone, Debug)]
        pub struct $object {
            $($field: $ty,)*
        }

        impl $object {
            #[doc = concat!("The object", $(" with attribute `", stringify!($field), "`",)* ".")]
            #[allow(clippy::new_without_default, reason = "MindSpore's objects are made by `new`")]
            pub const fn new($($field: $ty),*) -> Self {
                Self { $($field),* }
            }

            #[doc = concat!("Applies [`", stringify!($function), "`](crate::ops::", stringify!($function), ").")]
            #[track_caller]
            pub fn call(&self, $($x: $operand),*) -> $result {
                let Self { $($field),* } = self;
                $apply
            }
        }
    )*};
}

primitive_objects! {
    Addcdiv addcdiv(x: impl AsTensor, a: impl AsTensor, b: impl AsTensor, value: impl IntoOperand);
    Addcmul addcmul(x: impl AsTensor, a: impl AsTensor, b: impl AsTensor, value: impl IntoOperand);
    Lerp lerp(start: impl AsTensor, end: impl AsTensor, weight: impl IntoOperand);
    Abs abs(x: impl AsTensor);
    ACos acos(x: impl AsTensor);
    Acosh acosh(x: impl AsTensor);
    Add add(a: impl IntoOperand, b: impl IntoOperand);
    Asin asin(x: impl AsTensor);
    Asinh asinh(x: impl AsTensor);
    Atan atan(x: impl AsTensor);
    Atan2 atan2(a: impl IntoOperand, b: impl IntoOperand);
    Atanh atanh(x: impl AsTensor);
    BitwiseAnd bitwise_and(a: impl IntoOperand, b: impl IntoOperand);
    BitwiseOr bitwise_or(a: impl IntoOperand, b: impl IntoOperand);
    BitwiseXor bitwise_xor(a: impl IntoOperand, b: impl IntoOperand);
    BroadcastTo broadcast_to(x: impl AsTensor, shape: impl IntoDims);
    Cast cast(x: impl AsTensor, to: DType);
    Ceil ceil(x: impl AsTensor);
    Cos cos(x: impl AsTensor);
    Cosh cosh(x: impl AsTensor);
    Dense dense(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>);
    Div div(a: impl IntoOperand, b: impl IntoOperand);
    Equal equal(a: impl IntoOperand, b: impl IntoOperand);
    Erf erf(x: impl AsTensor);
    Erfc erfc(x: impl AsTensor);
    Exp exp(x: impl AsTensor);
    ExpandDims expand_dims(x: impl AsTensor, axis: isize);
    Expm1 expm1(x: impl AsTensor);
    Floor floor(x: impl AsTensor);
    FloorDiv floor_div(a: impl IntoOperand, b: impl IntoOperand);
    FloorMod remainder(a: impl IntoOperand, b: impl IntoOperand);
    Gather gather(x: impl AsTensor, index: impl AsTensor, axis: isize);
    GatherD take_along_axis(x: impl AsTensor, index: impl AsTensor, axis: isize);
    GatherNd gather_nd(x: impl AsTensor, index: impl AsTensor);
    GeLU gelu(x: impl AsTensor);
    Greater greater(a: impl IntoOperand, b: impl IntoOperand);
    GreaterEqual greater_equal(a: impl IntoOperand, b: impl IntoOperand);
    HSigmoid hsigmoid(x: impl AsTensor);
    HSwish hswish(x: impl AsTensor);
    Hypot hypot(a: impl IntoOperand, b: impl IntoOperand);
    Invert bitwise_not(x: impl AsTensor);
    IsFinite isfinite(x: impl AsTensor);
    IsInf isinf(x: impl AsTensor);
    IsNan isnan(x: impl AsTensor);
    LeftShift left_shift(a: impl IntoOperand, b: impl IntoOperand);
    Less less(a: impl IntoOperand, b: impl IntoOperand);
    LessEqual less_equal(a: impl IntoOperand, b: impl IntoOperand);
    LinSpace linspace(start: f64, stop: f64, num: usize);
    Log log(x: impl AsTensor);
    Log1p log1p(x: impl AsTensor);
    LogicalAnd logical_and(a: impl IntoOperand, b: impl IntoOperand);
    LogicalNot logical_not(x: impl AsTensor);
    LogicalOr logical_or(a: impl IntoOperand, b: impl IntoOperand);
    LogicalXor logical_xor(a: impl IntoOperand, b: impl IntoOperand);
    LogSigmoid logsigmoid(x: impl AsTensor);
    MaskedFill masked_fill(x: impl AsTensor, mask: impl AsTensor, value: impl IntoOperand);
    MaskedSelect masked_select(x: impl AsTensor, mask: impl AsTensor);
    Maximum maximum(a: impl IntoOperand, b: impl IntoOperand);
    Minimum minimum(a: impl IntoOperand, b: impl IntoOperand);
    Mish mish(x: impl AsTensor);
    Mul mul(a: impl IntoOperand, b: impl IntoOperand);
    Neg neg(x: impl AsTensor);
    NonZero nonzero(x: impl AsTensor);
    NotEqual not_equal(a: impl IntoOperand, b: impl IntoOperand);
    OnesLike ones_like(x: impl AsTensor);
    Pow pow(a: impl IntoOperand, b: impl IntoOperand);
    Reciprocal reciprocal(x: impl AsTensor);
    ReLU relu(x: impl AsTensor);
    ReLU6 relu6(x: impl AsTensor);
    Reshape reshape(x: impl AsTensor, shape: impl NewShape);
    RightShift right_shift(a: impl IntoOperand, b: impl IntoOperand);
    Round round(x: impl AsTensor);
    Rsqrt rsqrt(x: impl AsTensor);
    Select select(condition: impl AsTensor, then: impl IntoOperand, other: impl IntoOperand);
    SeLU selu(x: impl AsTensor);
    Sigmoid sigmoid(x: impl AsTensor);
    Sign sign(x: impl AsTensor);
    SiLU silu(x: impl AsTensor);
    Sin sin(x: impl AsTensor);
    Sinh sinh(x: impl AsTensor);
    Softsign softsign(x: impl AsTensor);
    Sqrt sqrt(x: impl AsTensor);
    Square square(x: impl AsTensor);
    StopGradient stop_gradient(x: impl AsTensor);
    Sub sub(a: impl IntoOperand, b: impl IntoOperand);
    Tan tan(x: impl AsTensor);
    Tanh tanh(x: impl AsTensor);
    TensorScatterAdd scatter_nd_add(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor);
    Tile tile(x: impl AsTensor, reps: &[usize]);
    Transpose permute(x: impl AsTensor, axes: impl IntoAxes);
    Trunc trunc(x: impl AsTensor);
    TruncateMod fmod(a: impl IntoOperand, b: impl IntoOperand);
    ZerosLike zeros_like(x: impl AsTensor);
}

primitives_with_attributes! {
    AddN() addn(tensors: &[impl AsTensor]) -> Tensor = crate::ops::addn(tensors);
    AdaptiveAvgPool2D(output_size: [usize; 2]) adaptive_avg_pool2d(x: impl AsTensor) -> Tensor = crate::ops::adaptive_avg_pool2d(x, *output_size);
    Argmax(axis: isize) argmax(x: impl AsTensor) -> Tensor = crate::ops::argmax(x, *axis);
    Argmin(axis: isize) argmin(x: impl AsTensor) -> Tensor = crate::ops::argmin(x, *axis);
    AvgPool(options: PoolOptions) avg_pool(x: impl AsTensor) -> Tensor = crate::ops::avg_pool(x, options);
    BatchMatMul(transpose_a: bool, transpose_b: bool) matmul(a: impl AsTensor, b: impl AsTensor) -> Tensor = product(a, *transpose_a, b, *transpose_b);
    BatchNorm(is_training: bool, eps: f64, momentum: f64) batch_norm(x: impl AsTensor, scale: impl AsTensor, bias: impl AsTensor, mean: impl AsTensor, variance: impl AsTensor) -> (Tensor, Tensor, Tensor) = normalize(&x.as_tensor(), scale, bias, BatchStatistics { mean: mean.as_tensor().into_owned(), var: variance.as_tensor().into_owned() }, *is_training, *eps, *momentum);
    BCEWithLogitsLoss(reduction: Reduction) bce_with_logits(x: impl AsTensor, target: impl AsTensor, pos_weight: Option<&Tensor>) -> Tensor = crate::ops::bce_with_logits(x, target, pos_weight, *reduction);
    BinaryCrossEntropy(reduction: Reduction) binary_cross_entropy(x: impl AsTensor, target: impl AsTensor, weight: Option<&Tensor>) -> Tensor = crate::ops::binary_cross_entropy(x, target, weight, *reduction);
    CeLU(alpha: f64) celu(x: impl AsTensor) -> Tensor = crate::ops::celu(x, *alpha);
    Concat(axis: isize) concat(tensors: &[impl AsTensor]) -> Tensor = crate::ops::concat(tensors, *axis);
    Conv2D(options: ConvOptions) conv2d(x: impl AsTensor, weight: impl AsTensor) -> Tensor = crate::ops::conv2d(x, weight, None, options);
    Conv2DTranspose(options: ConvOptions, output_padding: [usize; 2]) conv_transpose2d(x: impl AsTensor, weight: impl AsTensor) -> Tensor = crate::ops::conv_transpose2d(x, weight, None, options, *output_padding);
    Conv3D(options: ConvOptions) conv3d(x: impl AsTensor, weight: impl AsTensor) -> Tensor = crate::ops::conv3d(x, weight, None, options);
    CumProd(exclusive: bool, reverse: bool) cumprod(x: impl AsTensor, axis: isize) -> Tensor = crate::ops::cumprod_of(x, axis, *exclusive, *reverse);
    CumSum(exclusive: bool, reverse: bool) cumsum(x: impl AsTensor, axis: isize) -> Tensor = crate::ops::cumsum_of(x, axis, *exclusive, *reverse);
    Diag() diag(x: impl AsTensor) -> Tensor = crate::ops::diag(x, 0);
    Dropout(keep_prob: f64) dropout(x: impl AsTensor) -> Tensor = keep(x, *keep_prob);
    Einsum(equation: &'static str) einsum(operands: &[impl AsTensor]) -> Tensor = crate::ops::einsum(equation, operands);
    Elu(alpha: f64) elu(x: impl AsTensor) -> Tensor = crate::ops::elu(x, *alpha);
    Eye() eye_of(n: usize, m: usize, dtype: DType) -> Tensor = crate::ops::eye_of(n, m, 0, dtype);
    IndexAdd(axis: isize) index_add(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor) -> Tensor = crate::ops::index_add(x, index, source, *axis);
    KLDivLoss(reduction: Reduction) kl_div(x: impl AsTensor, target: impl AsTensor) -> Tensor = crate::ops::kl_div(x, target, false, *reduction);
    LayerNorm(begin_norm_axis: isize, eps: f64) layer_norm(x: impl AsTensor, gamma: &Tensor, beta: &Tensor) -> Tensor = crate::ops::layer_norm(x, Some(gamma), Some(beta), *begin_norm_axis, *eps);
    LogSoftmax(axis: isize) log_softmax(x: impl AsTensor) -> Tensor = crate::ops::log_softmax(x, *axis);
    MatMul(transpose_a: bool, transpose_b: bool) matmul(a: impl AsTensor, b: impl AsTensor) -> Tensor = product(a, *transpose_a, b, *transpose_b);
    MaxPool(options: PoolOptions) max_pool(x: impl AsTensor) -> Tensor = crate::ops::max_pool(x, options);
    NLLLoss(options: CrossEntropy) nll_loss(logs: impl AsTensor, target: impl AsTensor) -> Tensor = options.of_log_probabilities(logs, target);
    OneHot() one_hot(index: impl AsTensor, depth: usize, on: impl IntoOperand, off: impl IntoOperand) -> Tensor = crate::ops::select(crate::ops::cast(crate::ops::one_hot(index, depth), DType::Bool), on, off);
    Ones() ones(shape: impl IntoDims, dtype: DType) -> Tensor = Tensor::ones_of(shape, dtype);
    Pad(paddings: Vec<(usize, usize)>) pad(x: impl AsTensor) -> Tensor = crate::ops::pad(x, paddings, crate::ops::PadMode::Constant(0.into()));
    Range() arange_of(start: impl Into<Scalar>, limit: impl Into<Scalar>, delta: impl Into<Scalar>, dtype: DType) -> Tensor = crate::ops::arange_of(start, limit, delta, dtype);
    ReduceAll(keepdims: bool) all(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor = crate::ops::all(x, Keepdims::when(*keepdims, axes));
    ReduceAny(keepdims: bool) any(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor = crate::ops::any(x, Keepdims::when(*keepdims, axes));
    ReduceMax(keepdims: bool) max(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor = crate::ops::max(x, Keepdims::when(*keepdims, axes));
    ReduceMean(keepdims: bool) mean(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor = crate::ops::mean(x, Keepdims::when(*keepdims, axes));
    ReduceMin(keepdims: bool) min(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor = crate::ops::min(x, Keepdims::when(*keepdims, axes));
    ReduceProd(keepdims: bool) prod(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor = crate::ops::prod(x, Keepdims::when(*keepdims, axes));
    ReduceSum(keepdims: bool) sum(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor = crate::ops::sum(x, Keepdims::when(*keepdims, axes));
    ReverseV2(axes: Vec<isize>) flip(x: impl AsTensor) -> Tensor = crate::ops::flip(x, &axes[..]);
    RmsNorm(eps: f64) rms_norm(x: impl AsTensor, gamma: impl AsTensor) -> Tensor = crate::ops::rms_norm(x, gamma, -1, *eps);
    Roll(shifts: Vec<isize>, axes: Vec<isize>) roll(x: impl AsTensor) -> Tensor = crate::ops::roll(x, shifts, &axes[..]);
    Slice() slice(x: impl AsTensor, begin: &[usize], size: &[usize]) -> Tensor = crate::ops::slice(x, begin, size);
    SmoothL1Loss(beta: f64, reduction: Reduction) smooth_l1_loss(x: impl AsTensor, target: impl AsTensor) -> Tensor = crate::ops::smooth_l1_loss(x, target, *beta, *reduction);
    Softmax(axis: isize) softmax(x: impl AsTensor) -> Tensor = crate::ops::softmax(x, *axis);
    Softplus() softplus(x: impl AsTensor) -> Tensor = crate::ops::softplus(x, 1.0, 20.0);
    Sort(axis: isize, descending: bool) sort(x: impl AsTensor) -> (Tensor, Tensor) = crate::ops::sort(x, *axis, *descending);
    Split(axis: isize, output_num: usize) split(x: impl AsTensor) -> Vec<Tensor> = crate::ops::split(x, *output_num, *axis);
    Squeeze(axes: Vec<isize>) squeeze(x: impl AsTensor) -> Tensor = crate::ops::squeeze(x, &axes[..]);
    Stack(axis: isize) stack(tensors: &[impl AsTensor]) -> Tensor = crate::ops::stack(tensors, *axis);
    TopK() topk(x: impl AsTensor, k: usize) -> (Tensor, Tensor) = crate::ops::topk(x, k, -1, true);
    Tril(diagonal: isize) tril(x: impl AsTensor) -> Tensor = crate::ops::tril(x, *diagonal);
    Triu(diagonal: isize) triu(x: impl AsTensor) -> Tensor = crate::ops::triu(x, *diagonal);
    Unstack(axis: isize) unstack(x: impl AsTensor) -> Vec<Tensor> = crate::ops::unstack(x, *axis);
    Zeros() zeros(shape: impl IntoDims, dtype: DType) -> Tensor = Tensor::zeros_of(shape, dtype);
}

#[track_caller]
fn product(a: impl AsTensor, transpose_a: bool, b: impl AsTensor, transpose_b: bool) -> Tensor {
    let side = |x: &Tensor, transposed: bool| if transposed { crate::ops::transpose(x, -2, -1) } else { x.clone() };
    crate::ops::matmul(side(&a.as_tensor(), transpose_a), side(&b.as_tensor(), transpose_b))
}

/// Applies dropout with the probability of keeping an element.
#[track_caller]
fn keep(x: impl AsTensor, keep_prob: f64) -> Tensor {
    if !(keep_prob > 0.0 && keep_prob <= 1.0) {
        let message = format!("`keep_prob` is {keep_prob}, but has to be above 0 and at most 1");
        return refused(Error::new(Code::Argument, message).with_op("Dropout"));
    }
    crate::ops::dropout(x, 1.0 - keep_prob)
}

/// Returns the normalised tensor and the updated running statistics.
#[track_caller]
fn normalize(
    x: &Tensor,
    scale: impl AsTensor,
    bias: impl AsTensor,
    kept: BatchStatistics,
    training: bool,
    eps: f64,
    momentum: f64,
) -> (Tensor, Tensor, Tensor) {
    let next = if training { kept.updated(x, momentum) } else { kept.clone() };
    let y = crate::ops::batch_norm(x, scale, bias, (!training).then_some(&kept), eps);
    (y, next.mean, next.var)
}
