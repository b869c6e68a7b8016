//! Tests mixed precision: dtypes of parameters and layers, master weights, and loss scaling.

use crate::oracle::near;
use ms::amp::{DynamicLossScaler, Level, LossScaler, MixedPrecision, StaticLossScaler, auto_mixed_precision};
use ms::prelude::*;
use ms::{Context, context, with_context};

/// Runs a case eagerly and compiled.
fn both(run: impl Fn(&str)) {
    for (mode, jit) in [("eagerly", false), ("compiled", true)] {
        with_context(Context { jit, ..context() }, || run(mode));
    }
}

#[jit]
fn forward(net: &nn::Sequential, x: &Tensor) -> Tensor {
    net.call(x)
}

fn net() -> nn::Sequential {
    nn::sequential![
        nn::Conv1d::new(2, 4, 3).padding(1),
        nn::BatchNorm::new(4),
        nn::ReLU,
        nn::Flatten::new(),
        nn::Dense::new(20, 6),
        nn::LayerNorm::new(6),
        nn::Dense::new(6, 3)
    ]
}

#[test]
fn parameters_change_their_dtype() {
    both(|mode| {
        let (net, x) = (net(), random::randn([4, 2, 5]));
        net.set_train(false);
        let want = forward(&net, &x);
        for dtype in [DType::BF16, DType::F16, DType::F64] {
            net.to_dtype(dtype);
            assert!(net.parameters().iter().all(|it| it.value().dtype() == dtype), "{mode}");
            let got = forward(&net, &x.cast(dtype));
            assert_eq!(got.dtype(), dtype, "{mode}");
            let wrong = (got.cast(DType::F32) - &want).abs().max(()).item::<f32>();
            assert!(wrong < 0.15, "{mode}, {dtype}: {wrong}");
        }
        let optimizer = SGD::new(0.1);
        net.to_dtype(DType::BF16).set_train(true);
        optimizer.step(&net, &x.cast(DType::BF16), |net, x| net.call(x).square().mean(()));
        assert!(net.parameters().iter().all(|it| it.value().dtype() == DType::BF16), "{mode}: buffers too");
    });
    assert_eq!(
        ms::catch(|| net().to_dtype(DType::I64).parameters().len()).expect_err("no float").code(),
        ms::Code::DType
    );
    let inside = ms::jit(|net: &nn::Dense, x: &Tensor| {
        net.to_dtype(DType::F64);
        net.call(x)
    });
    let error = ms::catch(|| inside(&nn::Dense::new(2, 2), &Tensor::ones([1, 2]))).expect_err("it is compiled");
    assert_eq!(error.code(), ms::Code::Argument, "{error}");
}

#[test]
fn levels_decide_by_layer() {
    use DType::{BF16, F16, F32};
    // The level, the dtype, and for each layer the dtypes of its parameters and of its computation.
    type Row = (Level, DType, [DType; 5], [Option<DType>; 5]);
    let rows: [Row; 5] = [
        (Level::O0, F16, [F32; 5], [None; 5]),
        (Level::O1, BF16, [F32; 5], [Some(BF16), None, Some(BF16), None, Some(BF16)]),
        (Level::O2, F16, [F16, F32, F16, F32, F16], [Some(F16), Some(F32), Some(F16), Some(F32), Some(F16)]),
        (Level::O2, BF16, [BF16, F32, BF16, F32, BF16], [Some(BF16), Some(F32), Some(BF16), Some(F32), Some(BF16)]),
        (Level::O3, BF16, [BF16; 5], [Some(BF16); 5]),
    ];
    #[cell]
    struct Net {
        conv: nn::Conv1d,
        norm: nn::BatchNorm,
        fc: nn::Dense,
        layer_norm: nn::LayerNorm,
        head: nn::CellList<nn::Dense>,
    }
    #[cell]
    impl Net {
        #[jit]
        fn construct(&self, x: &Tensor) -> Tensor {
            let x = self.norm(&self.conv(x)).flatten(1);
            self.head[0].call(&self.layer_norm(&self.fc(&x)))
        }
    }
    both(|mode| {
        for (level, dtype, parameters, computes) in rows {
            let what = format!("{mode}, {level:?}, {dtype}");
            let net = Net {
                conv: nn::Conv1d::new(2, 4, 3),
                norm: nn::BatchNorm::new(4),
                fc: nn::Dense::new(12, 6),
                layer_norm: nn::LayerNorm::new(6),
                head: vec![nn::Dense::new(6, 3)].into(),
            };
            let x = random::randn([8, 2, 5]);
            let want = net.call(&x);
            auto_mixed_precision(&net, level, dtype);
            let weights = [
                &net.conv.weight,
                &net.norm.moving_mean,
                &net.fc.weight,
                &net.layer_norm.parameters()[0],
                &net.head[0].weight,
            ]
            .map(|it| it.value().dtype());
            assert_eq!(weights, parameters, "{what}");
            let flags =
                [&net.conv.compute, &net.norm.compute, &net.fc.compute, &net.layer_norm.compute, &net.head[0].compute];
            assert_eq!(flags.map(|it| it.get()), computes, "{what}");
            let got = net.call(&x);
            assert_eq!(got.dtype(), F32, "{what}: the result has the dtype of the operand");
            let wrong = (&got - &want).abs().max(()).item::<f32>();
            assert!(wrong < 0.1, "{what}: {wrong}");
            assert_eq!(wrong != 0.0, level != Level::O0, "{what}: {wrong}");
            if matches!(level, Level::O2 | Level::O3) {
                assert_eq!(net.call(&x.cast(dtype)).dtype(), dtype, "{what}: the dtype goes through");
            }
        }
    });
}

#[test]
fn lists_name_cells() {
    let encoder = nn::TransformerEncoderLayer::new(8, 2).dim_feedforward(8).dropout(0.0);
    let flags = |net: &nn::TransformerEncoderLayer| {
        [&net.self_attn.compute, &net.self_attn.out_proj.compute, &net.linear1.compute, &net.norm1.compute]
            .map(|it| it.get())
    };
    let (low, high) = (Some(DType::F16), Some(DType::F32));
    MixedPrecision::new(Level::O1, DType::F16).black_list(["MultiheadAttention"]).apply(&encoder);
    // The list that names an inner layer decides its dtype.
    assert_eq!(flags(&encoder), [high, low, low, None]);
    MixedPrecision::new(Level::O0, DType::F16)
        .white_list(["TransformerEncoderLayer"])
        .black_list(["LayerNorm"])
        .apply(&encoder);
    assert_eq!(flags(&encoder), [low, low, low, high]);
    let x = random::randn([3, 2, 8]);
    assert_eq!(encoder.call(&x, &nn::AttentionMask::causal()).dtype(), DType::F32);
    assert_eq!(ms::catch(|| MixedPrecision::new(Level::O1, DType::F64)).expect_err("wide").code(), ms::Code::DType);
    // Recurrent layers compute in this dtype, and return states in the dtype of the operands.
    let lstm = nn::LSTM::new(3, 4);
    let want = lstm.call(&Tensor::ones([5, 2, 3]), None, None);
    auto_mixed_precision(&lstm, Level::O2, DType::BF16);
    let got = lstm.call(&Tensor::ones([5, 2, 3]), None, None);
    assert_eq!((got.0.dtype(), got.1.1.dtype()), (DType::F32, DType::F32));
    assert!((got.0 - want.0).abs().max(()).item::<f32>() < 0.05);
}

#[test]
fn masters_add_up_what_parameters_round_away() {
    both(|mode| {
        let train = |masters: bool| {
            let net = nn::Dense::new(2, 1).without_bias().weight_init(|it| Tensor::full(it, 1.0));
            net.to_dtype(DType::BF16);
            let batch = Tensor::ones([1, 2]).cast(DType::BF16);
            let (plain, kept) = (SGD::new(0.001), SGD::new(0.001).master_weights());
            for _ in 0..10 {
                match masters {
                    true => kept.step(&net, &batch, |net, x| net.call(x).sum(())),
                    false => plain.step(&net, &batch, |net, x| net.call(x).sum(())),
                };
            }
            // The masters are saved with the optimiser, and a new optimiser continues from them.
            let state = (&net, &kept).state_dict();
            let (other, resumed) = (nn::Dense::new(2, 1).without_bias(), SGD::new(0.001).master_weights());
            other.to_dtype(DType::BF16);
            if masters {
                (&other, &resumed).load_state_dict(&state, &LoadOptions::new()).expect("the state is created");
                resumed.step(&other, &batch, |net, x| net.call(x).sum(()));
                let master =
                    (&other, &resumed).state_dict().get("[1].masters[\"[0].weight\"]").expect("it is saved").clone();
                near("resumed", &master, &Tensor::full([1, 2], 1.0 - 11.0 * 0.001));
            }
            net.weight.value().cast(DType::F32).to_vec::<f32>()[0]
        };
        assert_eq!(train(false), 1.0, "{mode}: every update is rounded away");
        let got = train(true);
        assert!((got - 0.99).abs() < 0.003, "{mode}: {got}");
    });
}

#[test]
fn scaled_losses_keep_small_gradients() {
    both(|mode| {
        let train = |scale: f64| {
            let net = nn::Dense::new(1, 1).without_bias().weight_init(|it| Tensor::zeros(it));
            net.to_dtype(DType::F16);
            let x = Tensor::full([1, 1], 2e-4).cast(DType::F16);
            let optimizer = SGD::new(1e6).master_weights().loss_scale(StaticLossScaler::new(scale));
            // The gradient of the weight is 2e-8, which is zero in f16.
            optimizer.step(&net, &x, |net, x| (net.call(x) * 1e-4).sum(()).cast(DType::F32));
            net.weight.value().cast(DType::F32).to_vec::<f32>()[0]
        };
        assert_eq!(train(1.0), 0.0, "{mode}");
        let got = train(1024.0);
        assert!((got / -0.02 - 1.0).abs() < 0.01, "{mode}: {got}");
    });
}

#[test]
fn steps_without_finite_gradients_change_nothing_but_the_factor() {
    both(|mode| {
        let net = nn::Dense::new(1, 1).without_bias().weight_init(|it| Tensor::ones(it));
        let loss = |net: &nn::Dense, x: &Tensor| net.call(x).sum(());
        let scaler = DynamicLossScaler::new(8.0).scale_window(2);
        let optimizer = Adam::new(0.1).clip_by_global_norm(1.0).loss_scale(scaler);
        let step = |x: f32| {
            optimizer.step(&net, &tensor![[x]], loss);
            (optimizer.scaler.scale().item::<f32>(), net.weight.value().item::<f32>())
        };
        let (scale, weight) = step(1.0);
        assert!(scale == 8.0 && (weight - 0.9).abs() < 1e-6, "{mode}: {scale} {weight}");
        for x in [f32::INFINITY, f32::NAN] {
            let (next, same) = step(x);
            assert!(same == weight, "{mode}: {same}");
            assert_eq!(next, if x.is_nan() { 2.0 } else { 4.0 }, "{mode}");
        }
        let (_, weight) = step(1.0);
        let (scale, after) = step(1.0);
        assert!(scale == 4.0 && (weight - 0.8).abs() < 1e-4 && (after - 0.7).abs() < 1e-4, "{mode}: {scale} {after}");
    });
}

/// Wrappers around a scaled optimiser get gradients of the unscaled loss, and so do parts of batches.
#[test]
fn optimisers_around_a_scaled_one_see_plain_gradients() {
    both(|mode| {
        let run = |update: &dyn Fn(&nn::Dense, &Tensor)| {
            let net = nn::Dense::new(2, 1).without_bias().weight_init(|it| Tensor::ones(it));
            update(&net, &tensor![[3.0, 4.0], [3.0, 4.0]]);
            net.weight.value().to_vec::<f32>()
        };
        let loss = |net: &nn::Dense, x: &Tensor| net.call(x).mean(());
        let scaler = || StaticLossScaler::new(64.0);
        let want = run(&|net, x| drop(SGD::new(1.0).clip_by_global_norm(1.0).step(net, x, loss)));
        let around =
            run(&|net, x| drop(SGD::new(1.0).loss_scale(scaler()).clip_by_global_norm(1.0).step(net, x, loss)));
        let inside =
            run(&|net, x| drop(SGD::new(1.0).clip_by_global_norm(1.0).loss_scale(scaler()).step(net, x, loss)));
        let parts = run(&|net, x| {
            drop(SGD::new(1.0).clip_by_global_norm(1.0).loss_scale(scaler()).step_in_parts(2, net, x, loss));
        });
        let aux = run(&|net, x| {
            let optimizer = SGD::new(1.0).clip_by_global_norm(1.0).loss_scale(scaler());
            let (value, y) = optimizer.step_with_aux(net, x, |net, x| (net.call(x).mean(()), net.call(x)));
            assert_eq!(
                (value.item::<f32>(), y.to_vec::<f32>()),
                (7.0, vec![7.0, 7.0]),
                "{mode}: the loss is not scaled"
            );
        });
        for (name, got) in [("around", around), ("inside", inside), ("parts", parts), ("aux", aux)] {
            assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-6), "{mode}, {name}: {got:?}, not {want:?}");
        }
    });
}
