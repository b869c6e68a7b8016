//! Checks that every name in `docs/mindspore.md` exists, and that no name of MindSpore is listed twice.

use std::collections::BTreeSet;
use std::fmt::Write as _;

// begin
#[rustfmt::skip]
#[allow(unused_imports)]
mod here {
    use ms::Cell as Cell;
    use ms::amp::DynamicLossScaler as amp_DynamicLossScaler;
    use ms::amp::StaticLossScaler as amp_StaticLossScaler;
    use ms::grad as grad;
    #[cfg(feature = "linalg")]
    use ms::linalg::cholesky as linalg_cholesky;
    #[cfg(feature = "linalg")]
    use ms::linalg::det as linalg_det;
    #[cfg(feature = "linalg")]
    use ms::linalg::inv as linalg_inv;
    #[cfg(feature = "linalg")]
    use ms::linalg::slogdet as linalg_slogdet;
    #[cfg(feature = "linalg")]
    use ms::linalg::solve as linalg_solve;
    #[cfg(feature = "linalg")]
    use ms::linalg::svd as linalg_svd;
    use ms::nn::AdaptiveAvgPool1d as nn_AdaptiveAvgPool1d;
    use ms::nn::AdaptiveAvgPool2d as nn_AdaptiveAvgPool2d;
    use ms::nn::AdaptiveAvgPool3d as nn_AdaptiveAvgPool3d;
    use ms::nn::AdaptiveMaxPool1d as nn_AdaptiveMaxPool1d;
    use ms::nn::AdaptiveMaxPool2d as nn_AdaptiveMaxPool2d;
    use ms::nn::AdaptiveMaxPool3d as nn_AdaptiveMaxPool3d;
    use ms::nn::AvgPool1d as nn_AvgPool1d;
    use ms::nn::AvgPool2d as nn_AvgPool2d;
    use ms::nn::AvgPool3d as nn_AvgPool3d;
    use ms::nn::BCELoss as nn_BCELoss;
    use ms::nn::BCEWithLogitsLoss as nn_BCEWithLogitsLoss;
    use ms::nn::BatchNorm as nn_BatchNorm;
    use ms::nn::BiDense as nn_BiDense;
    use ms::nn::CELU as nn_CELU;
    use ms::nn::CellList as nn_CellList;
    use ms::nn::Conv1d as nn_Conv1d;
    use ms::nn::Conv1dTranspose as nn_Conv1dTranspose;
    use ms::nn::Conv2d as nn_Conv2d;
    use ms::nn::Conv2dTranspose as nn_Conv2dTranspose;
    use ms::nn::Conv3d as nn_Conv3d;
    use ms::nn::Conv3dTranspose as nn_Conv3dTranspose;
    use ms::nn::CosineEmbeddingLoss as nn_CosineEmbeddingLoss;
    use ms::nn::CrossEntropyLoss as nn_CrossEntropyLoss;
    use ms::nn::Dense as nn_Dense;
    use ms::nn::DiceLoss as nn_DiceLoss;
    use ms::nn::Dropout as nn_Dropout;
    use ms::nn::Dropout1d as nn_Dropout1d;
    use ms::nn::Dropout2d as nn_Dropout2d;
    use ms::nn::Dropout3d as nn_Dropout3d;
    use ms::nn::ELU as nn_ELU;
    use ms::nn::Embedding as nn_Embedding;
    use ms::nn::Flatten as nn_Flatten;
    use ms::nn::FocalLoss as nn_FocalLoss;
    use ms::nn::GELU as nn_GELU;
    use ms::nn::GRU as nn_GRU;
    use ms::nn::GRUCell as nn_GRUCell;
    use ms::nn::GaussianNLLLoss as nn_GaussianNLLLoss;
    use ms::nn::GroupNorm as nn_GroupNorm;
    use ms::nn::HSigmoid as nn_HSigmoid;
    use ms::nn::HSwish as nn_HSwish;
    use ms::nn::HingeEmbeddingLoss as nn_HingeEmbeddingLoss;
    use ms::nn::HuberLoss as nn_HuberLoss;
    use ms::nn::InstanceNorm as nn_InstanceNorm;
    use ms::nn::L1Loss as nn_L1Loss;
    use ms::nn::LSTM as nn_LSTM;
    use ms::nn::LSTMCell as nn_LSTMCell;
    use ms::nn::LayerNorm as nn_LayerNorm;
    use ms::nn::LeakyReLU as nn_LeakyReLU;
    use ms::nn::LogSigmoid as nn_LogSigmoid;
    use ms::nn::LogSoftmax as nn_LogSoftmax;
    use ms::nn::MSELoss as nn_MSELoss;
    use ms::nn::MarginRankingLoss as nn_MarginRankingLoss;
    use ms::nn::MaxPool1d as nn_MaxPool1d;
    use ms::nn::MaxPool2d as nn_MaxPool2d;
    use ms::nn::MaxPool3d as nn_MaxPool3d;
    use ms::nn::Mish as nn_Mish;
    use ms::nn::MultiClassDiceLoss as nn_MultiClassDiceLoss;
    use ms::nn::MultiLabelMarginLoss as nn_MultiLabelMarginLoss;
    use ms::nn::MultiLabelSoftMarginLoss as nn_MultiLabelSoftMarginLoss;
    use ms::nn::MultiMarginLoss as nn_MultiMarginLoss;
    use ms::nn::NLLLoss as nn_NLLLoss;
    use ms::nn::PReLU as nn_PReLU;
    use ms::nn::PipelineCell as nn_PipelineCell;
    use ms::nn::RMSELoss as nn_RMSELoss;
    use ms::nn::RNN as nn_RNN;
    use ms::nn::RNNCell as nn_RNNCell;
    use ms::nn::ReLU as nn_ReLU;
    use ms::nn::ReLU6 as nn_ReLU6;
    use ms::nn::SELU as nn_SELU;
    use ms::nn::Sequential as nn_Sequential;
    use ms::nn::SiLU as nn_SiLU;
    use ms::nn::Sigmoid as nn_Sigmoid;
    use ms::nn::SmoothL1Loss as nn_SmoothL1Loss;
    use ms::nn::SoftMarginLoss as nn_SoftMarginLoss;
    use ms::nn::Softmax as nn_Softmax;
    use ms::nn::Softsign as nn_Softsign;
    use ms::nn::Tanh as nn_Tanh;
    use ms::nn::TripletMarginLoss as nn_TripletMarginLoss;
    use ms::ops::abs as ops_abs;
    use ms::ops::acos as ops_acos;
    use ms::ops::acosh as ops_acosh;
    use ms::ops::adaptive_avg_pool2d as ops_adaptive_avg_pool2d;
    use ms::ops::add as ops_add;
    use ms::ops::addcdiv as ops_addcdiv;
    use ms::ops::addcmul as ops_addcmul;
    use ms::ops::addn as ops_addn;
    use ms::ops::all as ops_all;
    use ms::ops::any as ops_any;
    use ms::ops::arange as ops_arange;
    use ms::ops::argmax as ops_argmax;
    use ms::ops::argmin as ops_argmin;
    use ms::ops::argsort as ops_argsort;
    use ms::ops::asin as ops_asin;
    use ms::ops::asinh as ops_asinh;
    use ms::ops::assign as ops_assign;
    use ms::ops::assign_add as ops_assign_add;
    use ms::ops::assign_sub as ops_assign_sub;
    use ms::ops::atan as ops_atan;
    use ms::ops::atan2 as ops_atan2;
    use ms::ops::atanh as ops_atanh;
    use ms::ops::avg_pool2d as ops_avg_pool2d;
    use ms::ops::batch_norm as ops_batch_norm;
    use ms::ops::binary_cross_entropy as ops_binary_cross_entropy;
    use ms::ops::bitwise_and as ops_bitwise_and;
    use ms::ops::bitwise_not as ops_bitwise_not;
    use ms::ops::bitwise_or as ops_bitwise_or;
    use ms::ops::bitwise_xor as ops_bitwise_xor;
    use ms::ops::bmm as ops_bmm;
    use ms::ops::broadcast_to as ops_broadcast_to;
    use ms::ops::ceil as ops_ceil;
    use ms::ops::celu as ops_celu;
    use ms::ops::clamp as ops_clamp;
    use ms::ops::concat as ops_concat;
    use ms::ops::conv2d as ops_conv2d;
    use ms::ops::conv3d as ops_conv3d;
    use ms::ops::cos as ops_cos;
    use ms::ops::cosh as ops_cosh;
    use ms::ops::cosine_embedding_loss as ops_cosine_embedding_loss;
    use ms::ops::cosine_similarity as ops_cosine_similarity;
    use ms::ops::count_nonzero as ops_count_nonzero;
    use ms::ops::cross_entropy as ops_cross_entropy;
    use ms::ops::cumprod as ops_cumprod;
    use ms::ops::cumsum as ops_cumsum;
    use ms::ops::diag as ops_diag;
    use ms::ops::div as ops_div;
    use ms::ops::dropout as ops_dropout;
    use ms::ops::einsum as ops_einsum;
    use ms::ops::elu as ops_elu;
    use ms::ops::equal as ops_equal;
    use ms::ops::erf as ops_erf;
    use ms::ops::erfc as ops_erfc;
    use ms::ops::exp as ops_exp;
    use ms::ops::exp2 as ops_exp2;
    use ms::ops::expand_dims as ops_expand_dims;
    use ms::ops::expm1 as ops_expm1;
    use ms::ops::eye as ops_eye;
    use ms::ops::flatten as ops_flatten;
    use ms::ops::flip as ops_flip;
    use ms::ops::floor as ops_floor;
    use ms::ops::floor_div as ops_floor_div;
    use ms::ops::fmod as ops_fmod;
    use ms::ops::full as ops_full;
    use ms::ops::full_like as ops_full_like;
    use ms::ops::gather as ops_gather;
    use ms::ops::gather_nd as ops_gather_nd;
    use ms::ops::gelu as ops_gelu;
    use ms::ops::greater as ops_greater;
    use ms::ops::greater_equal as ops_greater_equal;
    use ms::ops::hswish as ops_hswish;
    use ms::ops::huber_loss as ops_huber_loss;
    use ms::ops::hypot as ops_hypot;
    use ms::ops::index_add as ops_index_add;
    use ms::ops::index_select as ops_index_select;
    use ms::ops::interpolate as ops_interpolate;
    use ms::ops::isclose as ops_isclose;
    use ms::ops::isfinite as ops_isfinite;
    use ms::ops::isinf as ops_isinf;
    use ms::ops::isnan as ops_isnan;
    use ms::ops::kl_div as ops_kl_div;
    use ms::ops::l1_loss as ops_l1_loss;
    use ms::ops::leaky_relu as ops_leaky_relu;
    use ms::ops::left_shift as ops_left_shift;
    use ms::ops::lerp as ops_lerp;
    use ms::ops::less as ops_less;
    use ms::ops::less_equal as ops_less_equal;
    use ms::ops::linspace as ops_linspace;
    use ms::ops::log as ops_log;
    use ms::ops::log10 as ops_log10;
    use ms::ops::log1p as ops_log1p;
    use ms::ops::log2 as ops_log2;
    use ms::ops::log_softmax as ops_log_softmax;
    use ms::ops::logaddexp as ops_logaddexp;
    use ms::ops::logical_and as ops_logical_and;
    use ms::ops::logical_not as ops_logical_not;
    use ms::ops::logical_or as ops_logical_or;
    use ms::ops::logical_xor as ops_logical_xor;
    use ms::ops::logsigmoid as ops_logsigmoid;
    use ms::ops::logsumexp as ops_logsumexp;
    use ms::ops::masked_fill as ops_masked_fill;
    use ms::ops::masked_select as ops_masked_select;
    use ms::ops::matmul as ops_matmul;
    use ms::ops::max as ops_max;
    use ms::ops::maximum as ops_maximum;
    use ms::ops::mean as ops_mean;
    use ms::ops::meshgrid as ops_meshgrid;
    use ms::ops::min as ops_min;
    use ms::ops::minimum as ops_minimum;
    use ms::ops::mish as ops_mish;
    use ms::ops::move_axis as ops_move_axis;
    use ms::ops::mse_loss as ops_mse_loss;
    use ms::ops::mul as ops_mul;
    use ms::ops::neg as ops_neg;
    use ms::ops::nll_loss as ops_nll_loss;
    use ms::ops::nonzero as ops_nonzero;
    use ms::ops::norm as ops_norm;
    use ms::ops::not_equal as ops_not_equal;
    use ms::ops::one_hot as ops_one_hot;
    use ms::ops::ones as ops_ones;
    use ms::ops::ones_like as ops_ones_like;
    use ms::ops::outer as ops_outer;
    use ms::ops::pad as ops_pad;
    use ms::ops::permute as ops_permute;
    use ms::ops::pow as ops_pow;
    use ms::ops::print as ops_print;
    use ms::ops::prod as ops_prod;
    use ms::ops::reciprocal as ops_reciprocal;
    use ms::ops::relu as ops_relu;
    use ms::ops::relu6 as ops_relu6;
    use ms::ops::remainder as ops_remainder;
    use ms::ops::repeat as ops_repeat;
    use ms::ops::reshape as ops_reshape;
    use ms::ops::right_shift as ops_right_shift;
    use ms::ops::roll as ops_roll;
    use ms::ops::round as ops_round;
    use ms::ops::rsqrt as ops_rsqrt;
    use ms::ops::scatter as ops_scatter;
    use ms::ops::scatter_nd_add as ops_scatter_nd_add;
    use ms::ops::scatter_nd_reduce as ops_scatter_nd_reduce;
    use ms::ops::segment as ops_segment;
    use ms::ops::select as ops_select;
    use ms::ops::selu as ops_selu;
    use ms::ops::sigmoid as ops_sigmoid;
    use ms::ops::sign as ops_sign;
    use ms::ops::silu as ops_silu;
    use ms::ops::sin as ops_sin;
    use ms::ops::sinh as ops_sinh;
    use ms::ops::slice as ops_slice;
    use ms::ops::smooth_l1_loss as ops_smooth_l1_loss;
    use ms::ops::softmax as ops_softmax;
    use ms::ops::softsign as ops_softsign;
    use ms::ops::split as ops_split;
    use ms::ops::sqrt as ops_sqrt;
    use ms::ops::square as ops_square;
    use ms::ops::squeeze as ops_squeeze;
    use ms::ops::stack as ops_stack;
    use ms::ops::std as ops_std;
    use ms::ops::stop_gradient as ops_stop_gradient;
    use ms::ops::sub as ops_sub;
    use ms::ops::sum as ops_sum;
    use ms::ops::take_along_axis as ops_take_along_axis;
    use ms::ops::tan as ops_tan;
    use ms::ops::tanh as ops_tanh;
    use ms::ops::tile as ops_tile;
    use ms::ops::topk as ops_topk;
    use ms::ops::transpose as ops_transpose;
    use ms::ops::tril as ops_tril;
    use ms::ops::triu as ops_triu;
    use ms::ops::trunc as ops_trunc;
    use ms::ops::unstack as ops_unstack;
    use ms::ops::zeros as ops_zeros;
    use ms::ops::zeros_like as ops_zeros_like;
    use ms::optim::Adadelta as optim_Adadelta;
    use ms::optim::Adagrad as optim_Adagrad;
    use ms::optim::Adam as optim_Adam;
    use ms::optim::AdamWeightDecay as optim_AdamWeightDecay;
    use ms::optim::Clip as optim_Clip;
    use ms::optim::CosineDecay as optim_CosineDecay;
    use ms::optim::ExponentialDecay as optim_ExponentialDecay;
    use ms::optim::Lamb as optim_Lamb;
    use ms::optim::Momentum as optim_Momentum;
    use ms::optim::MultiStepDecay as optim_MultiStepDecay;
    use ms::optim::Optimizer as optim_Optimizer;
    use ms::optim::PolynomialDecay as optim_PolynomialDecay;
    use ms::optim::RMSProp as optim_RMSProp;
    use ms::optim::SGD as optim_SGD;
    use ms::optim::WarmUp as optim_WarmUp;
    use ms::random::bernoulli as random_bernoulli;
    use ms::random::categorical as random_categorical;
    use ms::random::multinomial as random_multinomial;
    use ms::random::normal as random_normal;
    use ms::random::randint as random_randint;
    use ms::random::randn as random_randn;
    use ms::random::uniform as random_uniform;
    use ms::tensor::WithStep as tensor_WithStep;
    use ms::train::Accuracy as train_Accuracy;
    use ms::train::Auc as train_Auc;
    use ms::train::BleuScore as train_BleuScore;
    use ms::train::ConfusionMatrix as train_ConfusionMatrix;
    use ms::train::F1 as train_F1;
    use ms::train::MAE as train_MAE;
    use ms::train::MSE as train_MSE;
    use ms::train::Metric as train_Metric;
    use ms::train::Model as train_Model;
    use ms::train::Perplexity as train_Perplexity;
    use ms::train::Precision as train_Precision;
    use ms::train::Recall as train_Recall;
    use ms::train::TopKCategoricalAccuracy as train_TopKCategoricalAccuracy;
    use ms::value_and_grad as value_and_grad;

    #[test]
    fn methods() {
        let _ = ms::Tensor::numel;
        let _ = ms::Tensor::rank;
        let _ = ms::Tensor::shape;
        let _ = ms::Tensor::t;
    }
}
// end

const PAGE: &str = include_str!("../../docs/mindspore.md");
const BEGIN: &str = "// begin\n";
const END: &str = "// end\n";

/// Returns the rows of the tables: a name of MindSpore, and the path of its counterpart in `ms`, if there is one.
fn rows() -> Vec<(&'static str, Option<&'static str>)> {
    let row = |line: &'static str| {
        let (name, here) = line.strip_prefix("| `")?.split_once("` |")?;
        Some((name, here.trim().strip_prefix('`').and_then(|it| it.strip_suffix("` |"))))
    };
    PAGE.lines().filter_map(row).collect()
}

/// Returns code that compiles only if all paths exist.
fn uses(paths: &BTreeSet<&str>) -> String {
    let mut code = "#[rustfmt::skip]\n#[allow(unused_imports)]\nmod here {\n".to_string();
    let mut methods = String::new();
    for path in paths {
        let name = path.replace("::", "_");
        let line = match path.split_once("::") {
            Some(("Tensor", _)) => writeln!(methods, "        let _ = ms::{path};"),
            Some((feature @ "linalg", _)) => {
                writeln!(code, "    #[cfg(feature = \"{feature}\")]\n    use ms::{path} as {name};")
            }
            _ => writeln!(code, "    use ms::{path} as {name};"),
        };
        line.expect("a string is written");
    }
    code + "\n    #[test]\n    fn methods() {\n" + &methods + "    }\n}\n"
}

#[test]
fn what_the_page_names_exists() {
    let rows = rows();
    let names: BTreeSet<&str> = rows.iter().map(|it| it.0).collect();
    assert_eq!(names.len(), rows.len(), "a name is listed twice");
    let found: Vec<(&str, &str)> = rows.iter().filter_map(|&(name, here)| Some((name, here?))).collect();
    for module in ["ops", "nn"] {
        let of = |name: &str| name.split_once('.').is_some_and(|it| it.0 == module);
        let (all, here) = (rows.iter().filter(|it| of(it.0)).count(), found.iter().filter(|it| of(it.0)).count());
        assert!(PAGE.contains(&format!("{here} of {all}")), "{here} of {all} names of `{module}` are here");
    }
    let source = include_str!("names.rs");
    let (before, rest) = source.split_once(BEGIN).expect("the list begins");
    let (listed, after) = rest.split_once(END).expect("the list ends");
    let wanted = uses(&found.iter().map(|it| it.1).collect());
    if listed != wanted && std::env::var_os("MS_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/names.rs");
        std::fs::write(path, format!("{before}{BEGIN}{wanted}{END}{after}")).expect("the list is written");
    } else {
        assert_eq!(listed, wanted, "`MS_BLESS=1` writes the list of what is used");
    }
}
