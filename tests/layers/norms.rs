//! Tests normalisations, activations with attributes, embedding tables and dense layers.

use crate::oracle::{check, layer};
use ms::prelude::*;

#[test]
fn normalisations_are_those_of_pytorch() {
    layer("batch_norm", nn::BatchNorm::new(3));
    let mut norm = nn::BatchNorm::new(3);
    (norm.momentum, norm.eps) = (0.7, 1e-3);
    layer("batch_norm_vectors", norm);
    let norm = nn::BatchNorm::new(3);
    norm.set_train(false);
    layer("batch_norm_eval", norm);
    layer("batch_norm_plain", nn::BatchNorm::new(2).without_affine());
    layer("layer_norm", nn::LayerNorm::new(5));
    layer("layer_norm_axes", nn::LayerNorm { eps: 1e-3, ..nn::LayerNorm::new([4, 5]) });
    layer("layer_norm_without_bias", nn::LayerNorm::new(5).without_bias());
    layer("rms_norm", nn::RMSNorm::new(5));
    layer("rms_norm_axes", nn::RMSNorm { eps: 1e-3, ..nn::RMSNorm::new([4, 5]) });
    layer("group_norm", nn::GroupNorm::new(2, 6));
    layer("group_norm_plain", nn::GroupNorm::new(3, 6).without_affine());
    layer("instance_norm", nn::InstanceNorm::new(3));
    layer("instance_norm_plain", nn::InstanceNorm::new(3).without_affine());
}

#[test]
fn plain_layers_are_those_of_pytorch() {
    layer("prelu", nn::PReLU::new(3));
    layer("prelu_single", nn::PReLU::new(1));
    layer("elu", nn::ELU { alpha: 0.7 });
    layer("celu", nn::CELU { alpha: 0.7 });
    layer("leaky_relu", nn::LeakyReLU { slope: 0.3 });
    layer("softplus", nn::Softplus { beta: 2.0 });
    layer("selu", nn::SELU);
    layer("mish", nn::Mish);
    layer("hsigmoid", nn::HSigmoid);
    layer("hswish", nn::HSwish);
    layer("embedding", nn::Embedding::new(5, 3).padding_idx(1));
    layer("dense", nn::Dense::new(4, 3));
    check("bilinear", nn::BiDense::new(3, 4, 2), |net, x, _| vec![net.call(&x[0], &x[1])]);
}

#[test]
fn batch_norm_takes_the_statistics_that_it_is_told_to() {
    let x = tensor![[1.0], [3.0]];
    for (training, of_batch, wanted) in
        [(true, Some(false), 1.0), (false, Some(true), -1.0), (true, None, -1.0), (false, None, 1.0)]
    {
        let mut norm = nn::BatchNorm::new(1);
        norm.use_batch_statistics = of_batch;
        norm.set_train(training);
        let got = norm.call(&x).to_vec::<f32>()[0];
        assert!((got - wanted).abs() < 1e-4, "{training} {of_batch:?}: {got}");
        let kept = norm.moving_mean.value().item::<f32>() == 0.0;
        assert_eq!(kept, !(training && of_batch.is_none()), "{training} {of_batch:?}");
    }
}

#[test]
fn dropout_zeroes_whole_channels_in_training() {
    let x = Tensor::ones([64, 8, 3, 3]);
    let drop = nn::Dropout2d::new(0.25);
    for jit in [false, true] {
        let run = ms::jit(|drop: &nn::Dropout2d, x: &Tensor| drop.call(x));
        let y = ms::with_context(ms::Context { jit, ..ms::context() }, || run(&drop, &x));
        let channels: Vec<Vec<f32>> = y.to_vec::<f32>().chunks(9).map(<[f32]>::to_vec).collect();
        assert!(channels.iter().all(|it| it.iter().all(|x| *x == it[0])), "channels are dropped as a whole");
        let dropped = channels.iter().filter(|it| it[0] == 0.0).count() as f32 / channels.len() as f32;
        assert!((dropped - 0.25).abs() < 0.08, "{dropped}");
        assert!(channels.iter().all(|it| it[0] == 0.0 || (it[0] - 1.0 / 0.75).abs() < 1e-6));
    }
    drop.set_train(false);
    assert_eq!(drop.call(&x).to_vec::<f32>(), x.to_vec::<f32>());
    let error = ms::catch(|| nn::Dropout1d::new(0.5).call(&x)).expect_err("it has two spatial axes");
    assert_eq!(error.code(), ms::Code::Shape);
}
