//! Applies operators as MindSpore's primitive objects.

use crate::case::{Attributes, Case};
use crate::{elementwise, losses, products, reductions};
use ms::Tensor;
use ms::ops;

/// Looks up objects for functions of tensors alone, by the names of the functions.
macro_rules! by_name {
    ($op:expr, $x:expr; unary: [$($unary:ident $one:ident;)*]; binary: [$($binary:ident $two:ident;)*]; $($other:tt)*) => {
        match $op {
            $(stringify!($unary) => ops::$one::new().call(&$x[0]),)*
            $(stringify!($binary) => ops::$two::new().call(&$x[0], &$x[1]),)*
            $($other)*
        }
    };
}

/// Returns the results of an operator; `None` if MindSpore has no such object.
pub fn apply(case: &Case, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let (attrs, op) = (&case.attrs, &*case.op);
    if let Some(results) = several(op, attrs, x) {
        return Some(results);
    }
    let axis = || attrs.int("axis");
    let keepdims = || attrs.flag("keepdims");
    let axes = || reductions::axes(attrs);
    let result = by_name! {
        op, x;
        unary: [
            abs Abs;
            acos ACos;
            acosh Acosh;
            asin Asin;
            asinh Asinh;
            atan Atan;
            atanh Atanh;
            bitwise_not Invert;
            ceil Ceil;
            cos Cos;
            cosh Cosh;
            erf Erf;
            erfc Erfc;
            exp Exp;
            expm1 Expm1;
            floor Floor;
            hsigmoid HSigmoid;
            hswish HSwish;
            isfinite IsFinite;
            isinf IsInf;
            isnan IsNan;
            log Log;
            log1p Log1p;
            logical_not LogicalNot;
            logsigmoid LogSigmoid;
            mish Mish;
            neg Neg;
            reciprocal Reciprocal;
            relu ReLU;
            relu6 ReLU6;
            round Round;
            rsqrt Rsqrt;
            selu SeLU;
            sigmoid Sigmoid;
            sign Sign;
            silu SiLU;
            sin Sin;
            sinh Sinh;
            softsign Softsign;
            sqrt Sqrt;
            square Square;
            tan Tan;
            tanh Tanh;
            trunc Trunc;
        ]; binary: [
            add Add;
            atan2 Atan2;
            bitwise_and BitwiseAnd;
            bitwise_or BitwiseOr;
            bitwise_xor BitwiseXor;
            div Div;
            equal Equal;
            floor_div FloorDiv;
            fmod TruncateMod;
            greater Greater;
            greater_equal GreaterEqual;
            hypot Hypot;
            left_shift LeftShift;
            less Less;
            less_equal LessEqual;
            logical_and LogicalAnd;
            logical_or LogicalOr;
            logical_xor LogicalXor;
            maximum Maximum;
            minimum Minimum;
            mul Mul;
            not_equal NotEqual;
            pow Pow;
            remainder FloorMod;
            right_shift RightShift;
            sub Sub;
        ];
        "adaptive_avg_pool2d" => {
            let size = attrs.sizes("output_size");
            ops::AdaptiveAvgPool2D::new([size[0], size[1]]).call(&x[0])
        }
        "all" => ops::ReduceAll::new(keepdims()).call(&x[0], axes()),
        "any" => ops::ReduceAny::new(keepdims()).call(&x[0], axes()),
        "arange" => ops::Range::new().call(
            attrs.int("start") as i64,
            attrs.int("stop") as i64,
            attrs.int("step") as i64,
            attrs.dtype("dtype"),
        ),
        "argmax" if attrs.has("axis") && !keepdims() => ops::Argmax::new(axis()).call(&x[0]),
        "argmin" if attrs.has("axis") && !keepdims() => ops::Argmin::new(axis()).call(&x[0]),
        "avg_pool2d" => {
            let options = products::pool(attrs).count_include_pad(attrs.flag("count_include_pad"));
            ops::AvgPool::new(options).call(&x[0])
        }
        "bce_with_logits" => ops::BCEWithLogitsLoss::new(losses::reduction(attrs)).call(&x[0], &x[1], x.get(2)),
        "binary_cross_entropy" => ops::BinaryCrossEntropy::new(losses::reduction(attrs)).call(&x[0], &x[1], x.get(2)),
        "cast" => elementwise::cast(attrs, &x[0], |x, to| ops::Cast::new().call(x, to)),
        "celu" => ops::CeLU::new(attrs.float("alpha")).call(&x[0]),
        "concat" => ops::Concat::new(axis()).call(x),
        "conv2d" => biased(ops::Conv2D::new(products::conv(attrs)).call(&x[0], &x[1]), x.get(2)),
        "conv3d" => biased(ops::Conv3D::new(products::conv(attrs)).call(&x[0], &x[1]), x.get(2)),
        "conv_transpose2d" => {
            let padding = attrs.sizes("output_padding");
            biased(ops::Conv2DTranspose::new(products::conv(attrs), [padding[0], padding[1]]).call(&x[0], &x[1]), x.get(2))
        }
        "cumprod" => ops::CumProd::new(false, false).call(&x[0], axis()),
        "cumsum" => ops::CumSum::new(attrs.flag("exclusive"), attrs.flag("reverse")).call(&x[0], axis()),
        "dense" => ops::Dense::new().call(&x[0], &x[1], x.get(2)),
        "diag" if attrs.int("k") == 0 => ops::Diag::new().call(&x[0]),
        // The object holds a `&'static str`, so the attribute is leaked.
        "einsum" => ops::Einsum::new(attrs.text("equation").to_string().leak()).call(x),
        "elu" => ops::Elu::new(attrs.float("alpha")).call(&x[0]),
        "expand" => ops::BroadcastTo::new().call(&x[0], attrs.sizes("shape")),
        "expand_dims" if !attrs.has("axes") => ops::ExpandDims::new().call(&x[0], axis()),
        "eye" if attrs.int("k") == 0 => {
            ops::Eye::new().call(attrs.size("n"), attrs.size("m"), attrs.dtype("dtype"))
        }
        "flip" => ops::ReverseV2::new(attrs.ints("axes")).call(&x[0]),
        "gather" => ops::Gather::new().call(&x[0], &x[1], axis()),
        "gather_nd" => ops::GatherNd::new().call(&x[0], &x[1]),
        "gelu" if attrs.text("approximate") != "tanh" => ops::GeLU::new().call(&x[0]),
        "index_add" => ops::IndexAdd::new(axis()).call(&x[0], &x[1], &x[2]),
        "kl_div" if !attrs.flag("log_target") => ops::KLDivLoss::new(losses::reduction(attrs)).call(&x[0], &x[1]),
        "layer_norm" if x.len() == 3 => {
            ops::LayerNorm::new(attrs.int("begin_norm_axis"), attrs.float("eps")).call(&x[0], &x[1], &x[2])
        }
        "linspace" => ops::LinSpace::new().call(attrs.float("start"), attrs.float("stop"), attrs.size("num")),
        "log_softmax" => ops::LogSoftmax::new(axis()).call(&x[0]),
        "masked_fill" => ops::MaskedFill::new().call(&x[0], &x[1], attrs.float("value")),
        "masked_select" => ops::MaskedSelect::new().call(&x[0], &x[1]),
        "matmul" => ops::MatMul::new(attrs.flag("transpose_a"), attrs.flag("transpose_b")).call(&x[0], &x[1]),
        "max" => ops::ReduceMax::new(keepdims()).call(&x[0], axes()),
        "max_pool2d" => {
            ops::MaxPool::new(products::pool(attrs).dilation(&attrs.sizes("dilation")[..])).call(&x[0])
        }
        "mean" => ops::ReduceMean::new(keepdims()).call(&x[0], axes()),
        "min" => ops::ReduceMin::new(keepdims()).call(&x[0], axes()),
        "nll_loss" => ops::NLLLoss::new(losses::cross_entropy(attrs, x)).call(&x[0], &x[1]),
        "nonzero" => ops::NonZero::new().call(&x[0]),
        "one_hot" => ops::OneHot::new().call(&x[0], attrs.size("num_classes"), 1.0, 0.0),
        "permute" => ops::Transpose::new().call(&x[0], attrs.ints("axes")),
        "prod" => ops::ReduceProd::new(keepdims()).call(&x[0], axes()),
        "reshape" => ops::Reshape::new().call(&x[0], &attrs.ints("shape")[..]),
        "pad" if attrs.text("mode") == "constant" && attrs.float("value") == 0.0 => {
            ops::Pad::new(attrs.pairs("pads")).call(&x[0])
        }
        "rms_norm" if x[1].rank() == 1 => ops::RmsNorm::new(attrs.float("eps")).call(&x[0], &x[1]),
        "roll" => ops::Roll::new(attrs.ints("shifts"), attrs.ints("axes")).call(&x[0]),
        "select" => ops::Select::new().call(&x[0], &x[1], &x[2]),
        "smooth_l1_loss" => {
            ops::SmoothL1Loss::new(attrs.float("beta"), losses::reduction(attrs)).call(&x[0], &x[1])
        }
        "softmax" => ops::Softmax::new(axis()).call(&x[0]),
        "softplus" if attrs.float("beta") == 1.0 && attrs.float("threshold") == 20.0 => ops::Softplus::new().call(&x[0]),
        "squeeze" => ops::Squeeze::new(attrs.ints("axes")).call(&x[0]),
        "stack" => ops::Stack::new(axis()).call(x),
        "sum" => ops::ReduceSum::new(keepdims()).call(&x[0], axes()),
        "take_along_axis" => ops::GatherD::new().call(&x[0], &x[1], axis()),
        "tile" => ops::Tile::new().call(&x[0], &attrs.sizes("reps")),
        "tril" => ops::Tril::new(attrs.int("k")).call(&x[0]),
        "triu" => ops::Triu::new(attrs.int("k")).call(&x[0]),
        _ => return None,
    };
    Some(vec![result])
}

/// Adds a bias to the result of an object without one.
fn biased(y: Tensor, bias: Option<&Tensor>) -> Tensor {
    let Some(bias) = bias else { return y };
    let axes: Vec<isize> = (1..y.rank() as isize - 1).collect();
    y + bias.expand_dims(axes)
}

/// Applies objects that have several results.
fn several(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let last = |x: &Tensor| attrs.int("axis") == -1 || attrs.int("axis") + 1 == x.rank() as isize;
    match op {
        "batch_norm" => {
            let momentum = attrs.optional_float("momentum").unwrap_or(0.1);
            let object = ops::BatchNorm::new(attrs.flag("training"), attrs.float("eps"), momentum);
            let (y, mean, var) = object.call(&x[0], &x[1], &x[2], &x[3], &x[4]);
            Some(if attrs.flag("training") { vec![y, mean, var] } else { vec![y] })
        }
        "sort" => {
            let (values, places) = ops::Sort::new(attrs.int("axis"), attrs.flag("descending")).call(&x[0]);
            Some(vec![values, places])
        }
        "split" if attrs.has("sections") => {
            Some(ops::Split::new(attrs.int("axis"), attrs.size("sections")).call(&x[0]))
        }
        "topk" if attrs.flag("largest") && last(&x[0]) => {
            let (values, places) = ops::TopK::new().call(&x[0], attrs.size("k"));
            Some(vec![values, places])
        }
        _ => None,
    }
}
