//! Applies optimisers by the names of the golden cases: the result is the parameter after each step.

use crate::case::Attributes;
use ms::Gradients;
use ms::optim::{Adadelta, Adagrad, Adam, Momentum, Optimizer, RMSProp, SGD};
use ms::prelude::jit;
use ms::{Parameter, Tensor, ops};

/// The operators of this family. They create a parameter from an operand.
pub const OPS: [&str; 7] = ["adadelta", "adagrad", "adam", "adamw", "momentum", "rmsprop", "sgd"];

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let float = |key: &str| attrs.optional_float(key).unwrap_or(0.0);
    let flag = |key: &str| attrs.has(key) && attrs.flag(key);
    let (rate, decay) = (|| attrs.float("lr"), float("weight_decay"));
    let adam = || {
        let betas = attrs.floats("betas");
        Adam::new(rate()).betas(betas[0], betas[1]).epsilon(attrs.float("eps")).amsgrad(flag("amsgrad"))
    };
    let result = match op {
        "adadelta" => train(Adadelta::new(rate()).rho(float("rho")).epsilon(attrs.float("eps")).weight_decay(decay), x),
        "adagrad" => train(
            Adagrad::new(rate())
                .accumulator(float("initial_accumulator_value"))
                .rate_decay(float("lr_decay"))
                .epsilon(attrs.float("eps"))
                .weight_decay(decay),
            x,
        ),
        "adam" => train(adam().weight_decay(decay), x),
        "adamw" => train(adam().decoupled_weight_decay(decay), x),
        "momentum" if attrs.has("dampening") => {
            train(SGD::new(rate()).momentum(float("momentum")).dampening(float("dampening")).weight_decay(decay), x)
        }
        "momentum" => train(Momentum::new(rate(), float("momentum")).nesterov(flag("nesterov")).weight_decay(decay), x),
        "rmsprop" => train(
            RMSProp::new(rate())
                .decay(attrs.float("alpha"))
                .epsilon(attrs.float("eps"))
                .momentum(float("momentum"))
                .centered(flag("centered"))
                .weight_decay(decay),
            x,
        ),
        "sgd" => train(SGD::new(rate()).weight_decay(decay), x),
        _ => return None,
    };
    Some(vec![result])
}

/// Trains a parameter that starts at the first operand, with the gradients in the second operand. Returns its value
/// after each step.
fn train(optimizer: impl Optimizer + 'static, x: &[Tensor]) -> Tensor {
    let parameter = Parameter::new(x[0].clone(), "p");
    optimizer.prepare(std::slice::from_ref(&parameter));
    let step = |at: usize| update(&optimizer, &parameter, &x[1].at(at));
    ops::stack(&(0..x[1].shape()[0]).map(step).collect::<Vec<_>>(), 0)
}

#[jit]
fn update<O: Optimizer + 'static>(optimizer: &O, parameter: &Parameter, gradient: &Tensor) -> Tensor {
    optimizer.update(&Gradients::new(vec![parameter.clone()], vec![gradient.clone()]));
    parameter.value()
}
