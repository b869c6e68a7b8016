//! Tests numbers out of range, which are an error where they are passed.
//!
//! The error has a code, the argument's name, its value and the valid values, at the user's line.

use ms::prelude::*;
use ms::{Code, catch};

/// Returns the failure of a case, unless its error is [`Code::Argument`] and contains all of these words.
fn check(name: &str, run: fn(), words: &[&str]) -> Option<String> {
    let Err(error) = catch(run) else { return Some(format!("{name}: accepted")) };
    let text = error.to_string();
    let missing: Vec<_> = words.iter().filter(|it| !text.contains(**it)).collect();
    let fits = error.code() == Code::Argument && missing.is_empty() && text.contains(file!());
    (!fits).then(|| format!("{name}: {missing:?} or the line are missing in\n{text}"))
}

/// Checks that the error of each expression contains these words.
macro_rules! refused {
    ($name:ident: $($run:expr => $words:expr;)*) => {
        #[test]
        fn $name() {
            let wrong = [$(check(stringify!($run), || { let _ = $run; }, &$words)),*];
            let wrong: Vec<String> = wrong.into_iter().flatten().collect();
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        }
    };
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// Runs a step of an optimiser.
fn step(optimizer: &impl Optimizer) -> Tensor {
    optimizer.step(&nn::Dense::new(1, 1), &Tensor::ones([1, 1]), |net, x| net.call(x).sum(()))
}

refused! { of_optimisers:
    SGD::new(-0.1) => ["SGD", "`rate` is -0.1", "at least 0 and finite"];
    SGD::new(NAN) => ["SGD", "`rate` is NaN"];
    SGD::new(INF) => ["SGD", "`rate` is inf"];
    SGD::new(0.1).momentum(-0.5) => ["SGD", "`momentum` is -0.5", "at least 0 and less than 1"];
    SGD::new(0.1).momentum(1.0) => ["`momentum` is 1"];
    SGD::new(0.1).momentum(NAN) => ["`momentum` is NaN"];
    SGD::new(0.1).dampening(-0.1) => ["`dampening` is -0.1", "from 0 to 1"];
    SGD::new(0.1).dampening(NAN) => ["`dampening` is NaN"];
    SGD::new(0.1).weight_decay(-1e-4) => ["`weight_decay` is -0.0001", "at least 0 and finite"];
    SGD::new(0.1).weight_decay(INF) => ["`weight_decay` is inf"];
    SGD::new(0.1).momentum(0.9).dampening(0.5).nesterov(true) => ["SGD", "`nesterov`", "`dampening` is 0.5"];
    SGD::new(0.1).momentum(0.9).nesterov(true).dampening(0.5) => ["SGD", "`nesterov`", "`dampening` is 0.5"];
    step(&SGD::new(0.1).nesterov(true)) => ["SGD", "`nesterov`", "`momentum` is 0"];
    SGD::new(0.1).set_learning_rate(-1.0) => ["SGD", "`rate` is -1"];
    SGD::new(0.1).set_learning_rate(NAN) => ["`rate` is NaN"];
    Momentum::new(-0.1, 0.9) => ["Momentum", "`rate` is -0.1"];
    Momentum::new(0.1, 1.5) => ["Momentum", "`momentum` is 1.5"];
    Momentum::new(0.1, 0.9).weight_decay(NAN) => ["Momentum", "`weight_decay` is NaN"];
    step(&Momentum::new(0.1, 0.0).nesterov(true)) => ["Momentum", "`nesterov`", "`momentum` is 0"];
    Momentum::new(0.1, 0.9).set_learning_rate(-INF) => ["Momentum", "`rate` is -inf"];
    Adam::new(-1.0) => ["Adam", "`rate` is -1"];
    Adam::new(NAN) => ["Adam", "`rate` is NaN"];
    Adam::new(0.1).betas(1.0, 0.9) => ["Adam", "`first` is 1", "at least 0 and less than 1"];
    Adam::new(0.1).betas(0.9, -0.1) => ["Adam", "`second` is -0.1"];
    Adam::new(0.1).betas(0.9, NAN) => ["`second` is NaN"];
    Adam::new(0.1).epsilon(0.0) => ["`epsilon` is 0", "positive and finite"];
    Adam::new(0.1).epsilon(-1e-8) => ["`epsilon` is -0.00000001"];
    Adam::new(0.1).epsilon(NAN) => ["`epsilon` is NaN"];
    Adam::new(0.1).weight_decay(-0.1) => ["`weight_decay` is -0.1"];
    Adam::new(0.1).decoupled_weight_decay(-0.1) => ["`weight_decay` is -0.1"];
    Adam::new(0.1).set_learning_rate(NAN) => ["Adam", "`rate` is NaN"];
    AdamWeightDecay::new(-0.1) => ["AdamWeightDecay", "`rate` is -0.1"];
    AdamWeightDecay::new(0.1).betas(-0.5, 0.9) => ["`first` is -0.5"];
    AdamWeightDecay::new(0.1).betas(0.5, 1.0) => ["`second` is 1"];
    AdamWeightDecay::new(0.1).epsilon(0.0) => ["`epsilon` is 0"];
    AdamWeightDecay::new(0.1).weight_decay(NAN) => ["`weight_decay` is NaN"];
    AdamWeightDecay::new(0.1).set_learning_rate(-1.0) => ["AdamWeightDecay", "`rate` is -1"];
    Adam::new(0.1).epsilon.set(0.0) => ["Adam", "`epsilon` is 0"];
    Adam::new(0.1).weight_decay.set(NAN) => ["Adam", "`weight_decay` is NaN"];
    Lion::new(NAN) => ["Lion", "`rate` is NaN"];
    Lion::new(0.1).betas(1.0, 0.9) => ["Lion", "`first` is 1"];
    Lamb::new(0.1).epsilon(0.0) => ["Lamb", "`epsilon` is 0"];
    Lamb::new(0.1).weight_decay(-1.0) => ["Lamb", "`weight_decay` is -1"];
    Adafactor::new(0.1).decay(-0.8) => ["Adafactor", "`decay` is -0.8"];
    Adafactor::new(0.1).clip(0.0) => ["Adafactor", "`clip` is 0"];
    LBFGS::with_history(1.0, 0) => ["LBFGS", "`history` is 0", "at least 1"];
    LBFGS::new(1.0).tolerances(-1.0, 0.0) => ["LBFGS", "`gradient_tolerance` is -1"];
    SGD::new(0.1).clip_by_norm(0.0) => ["`limit` is 0", "positive and finite"];
    SGD::new(0.1).average(1.0) => ["`decay` is 1", "at least 0 and less than 1"];
    SGD::new(0.1).accumulate(0) => ["`steps` is 0", "at least 1"];
    StepDecay::new(0, 0.5) => ["StepDecay", "`every` is 0"];
    StepDecay::new(1, -0.5) => ["StepDecay", "`factor` is -0.5"];
    CosineDecay::new(0) => ["CosineDecay", "`steps` is 0"];
    CosineDecay::new(1).min(-1.0) => ["CosineDecay", "`min` is -1"];
    PolynomialDecay::new(4, 0.0) => ["PolynomialDecay", "`power` is 0"];
    WarmUp::new(4).from(1.5) => ["WarmUp", "`from` is 1.5"];
    OneCycle::new(4).rising(2.0) => ["OneCycle", "`share` is 2"];
    OneCycle::new(4).divisors(0.0, 1.0) => ["OneCycle", "`start` is 0"];
    ReduceOnPlateau::new(1.0, 1) => ["ReduceOnPlateau", "`factor` is 1"];
    Adadelta::new(-0.1) => ["Adadelta", "`rate` is -0.1"];
    Adadelta::new(0.1).rho(1.5) => ["`rho` is 1.5", "from 0 to 1"];
    Adadelta::new(0.1).rho(NAN) => ["`rho` is NaN"];
    Adadelta::new(0.1).epsilon(0.0) => ["`epsilon` is 0"];
    Adadelta::new(0.1).weight_decay(-0.1) => ["`weight_decay` is -0.1"];
    Adadelta::new(0.1).set_learning_rate(-1.0) => ["Adadelta", "`rate` is -1"];
    Adagrad::new(NAN) => ["Adagrad", "`rate` is NaN"];
    Adagrad::new(0.1).accumulator(-0.1) => ["`first` is -0.1", "at least 0 and finite"];
    Adagrad::new(0.1).rate_decay(-0.1) => ["`rate_decay` is -0.1"];
    Adagrad::new(0.1).epsilon(-1.0) => ["`epsilon` is -1"];
    Adagrad::new(0.1).weight_decay(INF) => ["`weight_decay` is inf"];
    Adagrad::new(0.1).set_learning_rate(-1.0) => ["Adagrad", "`rate` is -1"];
    RMSProp::new(-0.1) => ["RMSProp", "`rate` is -0.1"];
    RMSProp::new(0.1).decay(-0.1) => ["`decay` is -0.1"];
    RMSProp::new(0.1).decay(1.0) => ["`decay` is 1"];
    RMSProp::new(0.1).epsilon(0.0) => ["`epsilon` is 0"];
    RMSProp::new(0.1).momentum(-0.1) => ["`momentum` is -0.1"];
    RMSProp::new(0.1).weight_decay(NAN) => ["`weight_decay` is NaN"];
    RMSProp::new(0.1).set_learning_rate(NAN) => ["RMSProp", "`rate` is NaN"];
}

fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(shape)
}

/// Applies a layer with a changed field.
fn normalized(change: fn(&mut nn::BatchNorm)) -> Tensor {
    let mut layer = nn::BatchNorm::new(2);
    change(&mut layer);
    layer.call(&ones(&[3, 2]))
}

refused! { of_layers:
    nn::Dropout::new(1.0) => ["Dropout", "`p` is 1", "at least 0 and less than 1"];
    nn::Dropout::new(-0.1) => ["`p` is -0.1"];
    nn::Dropout::new(NAN) => ["`p` is NaN"];
    normalized(|it| it.eps = 0.0) => ["batch_norm", "`eps` is 0", "positive and finite"];
    normalized(|it| it.eps = NAN) => ["batch_norm", "`eps` is NaN"];
    normalized(|it| it.momentum = 1.5) => ["BatchNorm", "`momentum` is 1.5", "from 0 to 1"];
    normalized(|it| it.momentum = NAN) => ["`momentum` is NaN"];
    nn::LayerNorm { eps: -1.0, ..nn::LayerNorm::new(2) }.call(&ones(&[3, 2])) => ["layer_norm", "`eps` is -1"];
    nn::Conv2d::new(1, 1, 0) => ["Conv2d", "`kernel` is 0", "at least 1"];
    nn::Conv2d::new(1, 1, 1).stride(0) => ["Conv2d", "`stride` is 0"];
    nn::MaxPool2d::new(0) => ["MaxPool2d", "`kernel` is 0"];
    nn::MaxPool2d::new(2).stride(0) => ["MaxPool2d", "`stride` is 0"];
    nn::AvgPool2d::new(0) => ["AvgPool2d", "`kernel` is 0"];
    nn::AvgPool2d::new(2).stride(0) => ["AvgPool2d", "`stride` is 0"];
    nn::Conv2d::new(4, 6, 3).groups(4) => ["Conv2d", "`groups` is 4", "[4, 6]"];
    nn::Conv2d::new(4, 6, [3]) => ["Conv2d", "`kernel` has 1 numbers for 2 axes"];
    nn::Conv1dTranspose::new(1, 1, 1).dilation(0) => ["Conv1dTranspose", "`dilation` is 0"];
    nn::AdaptiveMaxPool3d::new([1, 0, 1]) => ["AdaptiveMaxPool3d", "`output_size` is 0"];
    nn::Dropout2d::new(1.0) => ["Dropout2d", "`p` is 1"];
    nn::GroupNorm::new(3, 4) => ["GroupNorm", "`groups` is 3"];
    nn::LSTM::new(3, 0) => ["LSTM", "`hidden` is 0"];
    nn::GRU::new(3, 4).num_layers(0) => ["GRU", "`num_layers` is 0"];
    nn::RNN::new(3, 4).dropout(1.0) => ["`p` is 1"];
    nn::MultiheadAttention::new(4, 3) => ["MultiheadAttention", "`heads` is 3"];
    nn::RotaryEmbedding::new(3) => ["RotaryEmbedding", "`dim` is 3"];
    ms::amp::DynamicLossScaler::new(0.0) => ["DynamicLossScaler", "`scale_value` is 0"];
    nn::PipelineCell::new(nn::Dense::new(1, 1), 0) => ["PipelineCell", "`parts` is 0", "at least 1"];
}

fn pools(options: ops::PoolOptions, pool: fn(&Tensor, &ops::PoolOptions) -> Tensor) -> Tensor {
    pool(&ones(&[1, 1, 9]), &options)
}

fn convolves(options: ops::ConvOptions) -> Tensor {
    ops::conv1d(ones(&[1, 1, 9]), ones(&[1, 1, 3]), None, &options)
}

fn max_pool(x: &Tensor, options: &ops::PoolOptions) -> Tensor {
    ops::max_pool(x, options)
}

fn avg_pool(x: &Tensor, options: &ops::PoolOptions) -> Tensor {
    ops::avg_pool(x, options)
}

fn cross_entropy(label_smoothing: f64) -> Tensor {
    ops::CrossEntropy { label_smoothing, ..Default::default() }.of(ones(&[2, 3]), tensor![0, 1])
}

fn statistics() -> ops::BatchStatistics {
    ops::BatchStatistics { mean: ones(&[2]), var: ones(&[2]) }
}

refused! { of_ops:
    ops::dropout(ones(&[2]), 1.0) => ["dropout", "`p` is 1"];
    ops::dropout(ones(&[2]), NAN) => ["dropout", "`p` is NaN"];
    ops::Dropout::new(1.5).call(ones(&[2])) => ["Dropout", "`keep_prob` is 1.5", "at most 1"];
    ops::Dropout::new(0.0).call(ones(&[2])) => ["Dropout", "`keep_prob` is 0"];
    ops::layer_norm(ones(&[2]), None, None, -1, 0.0) => ["layer_norm", "`eps` is 0"];
    ops::layer_norm(ones(&[2]), None, None, -1, NAN) => ["layer_norm", "`eps` is NaN"];
    ops::rms_norm(ones(&[2]), ones(&[2]), -1, -1e-5) => ["rms_norm", "`eps` is -0.00001"];
    ops::group_norm(ones(&[1, 2, 2]), 1, ones(&[2]), ones(&[2]), INF) => ["group_norm", "`eps` is inf"];
    ops::group_norm(ones(&[1, 2, 2]), 0, ones(&[2]), ones(&[2]), 1e-5) => ["group_norm", "`groups` is 0"];
    ops::instance_norm(ones(&[1, 2, 2]), ones(&[2]), ones(&[2]), 0.0) => ["instance_norm", "`eps` is 0"];
    ops::batch_norm(ones(&[3, 2]), ones(&[2]), ones(&[2]), None, -1.0) => ["batch_norm", "`eps` is -1"];
    ops::batch_norm(ones(&[3, 2]), ones(&[2]), ones(&[2]), Some(&statistics()), NAN) => ["batch_norm", "`eps` is NaN"];
    statistics().updated(ones(&[3, 2]), 1.5) => ["batch_norm", "`momentum` is 1.5", "from 0 to 1"];
    statistics().updated(ones(&[3, 2]), NAN) => ["batch_norm", "`momentum` is NaN"];
    cross_entropy(1.5) => ["cross_entropy", "`label_smoothing` is 1.5", "from 0 to 1"];
    cross_entropy(-0.1) => ["`label_smoothing` is -0.1"];
    cross_entropy(NAN) => ["`label_smoothing` is NaN"];
    ops::smooth_l1_loss(ones(&[2]), ones(&[2]), -1.0, ops::Reduction::Mean) => ["smooth_l1_loss", "`beta` is -1"];
    ops::smooth_l1_loss(ones(&[2]), ones(&[2]), INF, ops::Reduction::Mean) => ["smooth_l1_loss", "`beta` is inf"];
    ops::huber_loss(ones(&[2]), ones(&[2]), 0.0, ops::Reduction::Mean) => ["huber_loss", "`delta` is 0"];
    ops::huber_loss(ones(&[2]), ones(&[2]), INF, ops::Reduction::Mean) => ["huber_loss", "`delta` is inf"];
    ops::cosine_similarity(ones(&[2]), ones(&[2]), 0, 0.0) => ["cosine_similarity", "`eps` is 0"];
    ops::cosine_similarity(ones(&[2]), ones(&[2]), 0, NAN) => ["cosine_similarity", "`eps` is NaN"];
    ops::cosine_embedding_loss(ones(&[1, 2]), ones(&[1, 2]), tensor![1], NAN, ops::Reduction::Mean) =>
        ["cosine_embedding_loss", "`margin` is NaN", "finite"];
    ops::softplus(ones(&[2]), 0.0, 20.0) => ["softplus", "`beta` is 0", "not 0"];
    ops::softplus(ones(&[2]), NAN, 20.0) => ["softplus", "`beta` is NaN"];
    ops::softplus(ones(&[2]), 1.0, NAN) => ["softplus", "`threshold` is NaN"];
    ops::celu(ones(&[2]), 0.0) => ["celu", "`alpha` is 0", "not 0"];
    ops::celu(ones(&[2]), NAN) => ["celu", "`alpha` is NaN"];
    ops::clamp(ones(&[2]), NAN, 1.0) => ["clamp_min", "`low` is NaN"];
    ops::clamp(ones(&[2]), 0.0, NAN) => ["clamp_max", "`high` is NaN"];
    ops::norm(ones(&[2]), NAN, ()) => ["norm", "`p` is NaN"];
    ops::isclose(ones(&[2]), ones(&[2]), -1e-5, 0.0, false) => ["isclose", "`rtol` is -0.00001", "at least 0"];
    ops::isclose(ones(&[2]), ones(&[2]), 0.0, NAN, false) => ["isclose", "`atol` is NaN"];
    ops::scaled_dot_product_attention(ones(&[2, 2]), ones(&[2, 2]), ones(&[2, 2]),
        &ops::AttentionOptions { scale: Some(NAN), ..Default::default() }) =>
        ["scaled_dot_product_attention", "`scale` is NaN", "finite"];
    convolves(ops::ConvOptions::new(1).stride(0)) => ["conv", "above zero"];
    convolves(ops::ConvOptions::new(1).dilation(0)) => ["conv", "above zero"];
    ops::conv1d(ones(&[1, 1, 9]), ones(&[1, 1, 0]), None, &ops::ConvOptions::new(1)) => ["conv", "above zero"];
    ops::conv_transpose(ones(&[1, 1, 9]), ones(&[1, 1, 3]), None, &ops::ConvOptions::new(1).stride(0), 0) => ["conv", "above zero"];
    pools(ops::PoolOptions::new(1, 0), max_pool) => ["max_pool", "above zero"];
    pools(ops::PoolOptions::new(1, 2).stride(0), max_pool) => ["max_pool", "above zero"];
    pools(ops::PoolOptions::new(1, 2).stride(0), avg_pool) => ["avg_pool", "above zero"];
    pools(ops::PoolOptions::new(1, 2).dilation(0), max_pool) => ["max_pool", "above zero"];
    pools(ops::PoolOptions::new(1, 2).padding(2), max_pool) => ["max_pool", "padding", "half"];
    pools(ops::PoolOptions::new(1, 3).padding(2), avg_pool) => ["avg_pool", "padding", "half"];
    ops::arange_of(0, 3, 0, DType::I64) => ["arange", "0"];
    ops::split(ones(&[2]), 0, 0) => ["split", "0"];
    ops::random::uniform([2], 2.0, 1.0) => ["random_uniform", "`low` 2", "`high` 1"];
    ops::random::uniform([2], NAN, 1.0) => ["random_uniform", "`low` NaN"];
    ops::random::uniform([2], 0.0, INF) => ["random_uniform", "`high` inf"];
    ops::random::normal([2], 0.0, -1.0) => ["random_normal", "`std` is -1"];
    ops::random::normal([2], 0.0, NAN) => ["random_normal", "`std` is NaN"];
    ops::random::normal([2], NAN, 1.0) => ["random_normal", "`mean` is NaN", "finite"];
    ops::random::bernoulli([2], 1.5) => ["random_bernoulli", "1.5"];
    ops::random::bernoulli([2], NAN) => ["random_bernoulli", "NaN"];
    ops::random::randint([2], 3, 3) => ["random_integers", "from 3 up to 3"];
    ms::range(0, 3).step(0) => ["range", "0"];
}

refused! { of_data:
    TensorDataset::new(ones(&[2])).batch(0) => ["batch", "`size` is 0"];
    TensorDataset::new(ones(&[2])).repeat(0) => ["repeat", "`times` is 0"];
    TensorDataset::new(ones(&[2])).repeat(usize::MAX) => ["repeat", "`times` is", "2 samples"];
    DataLoader::new(TensorDataset::new(ones(&[2]))).prefetch(0) => ["DataLoader", "`prefetch` is 0"];
    ms::data::WeightedRandomSampler::new([1.0, NAN], 1) => ["WeightedRandomSampler", "sample 1 is NaN"];
    ms::data::WeightedRandomSampler::new([1.0, -1.0], 1) => ["WeightedRandomSampler", "sample 1 is -1"];
    ms::data::WeightedRandomSampler::new([0.0, 0.0], 1) => ["WeightedRandomSampler", "sum of all weights is 0"];
    ms::data::WeightedRandomSampler::new([f64::MAX, f64::MAX], 1) => ["WeightedRandomSampler", "weights is inf"];
    ms::data::DistributedSampler::new(0, 0) => ["DistributedSampler", "`shards` is 0"];
    ms::data::DistributedSampler::new(2, 2) => ["DistributedSampler", "`shard` is 2"];
}

/// Numbers at the ends of the valid range are accepted.
#[test]
fn the_ends_of_ranges_are_valid() {
    let _taken = (
        SGD::new(0.0).momentum(0.0).dampening(1.0).weight_decay(0.0),
        SGD::new(0.1).nesterov(true).momentum(0.9),
        Adam::new(0.0).betas(0.0, 0.0).epsilon(1e-300).weight_decay(0.0),
        Adadelta::new(0.0).rho(1.0),
        Adagrad::new(0.0).accumulator(0.0).rate_decay(0.0),
        RMSProp::new(0.0).decay(0.0).momentum(0.0),
        nn::Dropout::new(0.0),
        cross_entropy(1.0),
        pools(ops::PoolOptions::new(1, 3).padding(1), max_pool),
        pools(ops::PoolOptions::new(1, 2).padding(2).dilation(3), max_pool),
        ops::clamp(ones(&[2]), 3.0, f64::NEG_INFINITY),
        ops::isclose(ones(&[2]), ones(&[2]), 0.0, INF, false),
        ops::norm(ones(&[2]), INF, ()),
        statistics().updated(ones(&[3, 2]), 1.0),
    );
}
