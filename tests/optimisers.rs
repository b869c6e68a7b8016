//! Optimisers beyond the golden cases: every one gives the same compiled and not, on every float
//! dtype, sees a new learning rate, and takes up parameters that come later.

use ms::prelude::*;
use ms::session::Gradients;
use ms::{Context, context, with_context};

/// Minimises `Σ (p - 3)²` from 1 and 2; a second parameter joins after two steps.
fn train<O: Optimizer + 'static>(optimizer: O, dtype: DType, jit: bool) -> Vec<f64> {
    #[jit]
    fn update<O: Optimizer + 'static>(optimizer: &O, parameters: &Vec<Parameter>) {
        let gradients = parameters.iter().map(|it| (it.value() - 3.0) * 2.0).collect();
        optimizer.update(&Gradients::new(parameters.clone(), gradients));
    }
    with_context(Context { jit, precision: Precision::Strict, ..context() }, || {
        let mut parameters = vec![Parameter::new(tensor![1.0, 2.0].cast(dtype), "first")];
        for step in 0..6 {
            if step == 2 {
                parameters.push(Parameter::new(tensor![4.0].cast(dtype), "second"));
            }
            if step == 4 {
                optimizer.set_learning_rate(0.001);
            }
            optimizer.prepare(&parameters);
            update(&optimizer, &parameters);
        }
        let values = parameters.iter().map(|it| {
            assert_eq!(it.value().dtype(), dtype);
            it.value().cast(DType::F64).to_vec::<f64>()
        });
        values.flatten().collect()
    })
}

fn check<O: Optimizer + 'static>(name: &str, make: impl Fn() -> O) {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let (eager, compiled) = (train(make(), dtype, false), train(make(), dtype, true));
        assert_eq!(eager, compiled, "{name}, {dtype}");
        let far = [2.0, 1.0, 1.0];
        let nearer = eager.iter().zip(far).all(|(it, far)| (it - 3.0).abs() < far);
        assert!(nearer && eager.len() == 3, "{name}, {dtype}: {eager:?}");
    }
}

#[test]
fn every_optimiser_steps_compiled_as_it_does_eagerly() {
    check("SGD", || SGD::new(0.1));
    check("SGD, decay", || SGD::new(0.1).weight_decay(0.1));
    check("SGD, dampened", || SGD::new(0.1).momentum(0.9).dampening(0.5));
    check("Momentum", || Momentum::new(0.1, 0.9));
    check("Momentum, Nesterov", || Momentum::new(0.1, 0.9).nesterov(true));
    check("Adam", || Adam::new(0.1));
    check("AMSGrad", || Adam::new(0.1).amsgrad(true));
    check("AdamW", || Adam::new(0.1).decoupled_weight_decay(0.1));
    check("AdamWeightDecay", || AdamWeightDecay::new(0.1).weight_decay(0.1));
    check("RMSProp", || RMSProp::new(0.1).epsilon(1e-4));
    check("RMSProp, all", || RMSProp::new(0.1).epsilon(1e-2).centered(true).momentum(0.9));
    check("Adagrad", || Adagrad::new(0.5).rate_decay(0.1));
    check("Adadelta", || Adadelta::new(10.0).epsilon(1e-3));
}

/// A parameter without a gradient stays, whatever ε is in its own dtype.
#[test]
fn half_precision_parameters_have_wide_state() {
    for dtype in [DType::F16, DType::BF16] {
        let parameter = Parameter::new(tensor![1.0, 2.0].cast(dtype), "p");
        let gradient = tensor![0.0, 1e-4].cast(dtype);
        Adam::new(0.1).update(&Gradients::new(vec![parameter.clone()], vec![gradient]));
        let values = parameter.value().cast(DType::F32).to_vec::<f32>();
        assert!(values[0] == 1.0 && (values[1] - 1.9).abs() < 0.01, "{dtype}: {values:?}");
    }
}

/// MindSpore's formula, step by step in f64.
#[test]
fn adam_weight_decay_takes_averages_as_they_are() {
    let (rate, b1, b2, epsilon, decay) = (0.05, 0.8, 0.95, 1e-6, 0.1);
    let parameter = Parameter::new(Tensor::scalar(1.5).cast(DType::F64), "p");
    let optimizer = AdamWeightDecay::new(rate).betas(b1, b2).epsilon(epsilon).weight_decay(decay);
    let (mut p, mut m, mut v) = (1.5f64, 0.0, 0.0);
    for g in [0.5, -1.0, 2.0, 0.25] {
        let gradient = Tensor::scalar(g).cast(DType::F64);
        optimizer.update(&Gradients::new(vec![parameter.clone()], vec![gradient]));
        (m, v) = (b1 * m + (1.0 - b1) * g, b2 * v + (1.0 - b2) * g * g);
        p -= f64::from(rate as f32) * (m / (v.sqrt() + epsilon) + decay * p);
        let got = parameter.value().item::<f64>();
        assert!((got - p).abs() < 1e-12, "{got}, not {p}");
    }
}
