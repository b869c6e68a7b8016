//! Optimisers: the parameter after each step.

use crate::case::Attributes;
use ms::optim::{Adam, Optimizer, Sgd};
use ms::session::Gradients;
use ms::{Parameter, Tensor, ops};

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let float = |key: &str| attrs.optional_float(key).unwrap_or(0.0);
    let unknown = ["amsgrad", "nesterov", "dampening"].into_iter().any(|key| attrs.has(key));
    let result = match op {
        "adam" | "adamw" | "momentum" if unknown => return None,
        "adam" => train(adam(attrs).weight_decay(float("weight_decay")), x),
        "adamw" => train(adam(attrs).decoupled_weight_decay(float("weight_decay")), x),
        "momentum" => train(sgd(attrs).momentum(float("momentum")), x),
        "sgd" => train(sgd(attrs), x),
        _ => return None,
    };
    Some(vec![result])
}

fn adam(attrs: &Attributes) -> Adam {
    let betas = attrs.floats("betas");
    Adam::new(attrs.float("lr")).betas(betas[0], betas[1]).epsilon(attrs.float("eps"))
}

fn sgd(attrs: &Attributes) -> Sgd {
    Sgd::new(attrs.float("lr")).weight_decay(attrs.optional_float("weight_decay").unwrap_or(0.0))
}

/// The values of a parameter that starts at the first operand, after each of the gradients in
/// the second.
fn train(optimizer: impl Optimizer, x: &[Tensor]) -> Tensor {
    let parameter = Parameter::new(x[0].clone(), "p");
    let step = |at: usize| {
        optimizer.update(&Gradients::new(vec![parameter.clone()], vec![x[1].at(at)]));
        parameter.value()
    };
    ops::stack(&(0..x[1].shape()[0]).map(step).collect::<Vec<_>>(), 0)
}
