//! The derivative rules of all ops on their samples, beside central differences and the bodies of composites.

use ms_core::ops::core::testing::check_ops;
use ms_core::ops::{self, Body, OpDef, Vjp};
use ms_core::session::vjp;
use ms_core::tensor::Tensor;

/// Compares the derivative rule of a composite with the derivative of its body.
fn check_by_body(def: &'static OpDef, body: Body, rule: &Vjp<'_>) {
    let Some(gradients) = ms_core::ops::transform_rules(def).pull(rule) else { return };
    let (inputs, attrs) = (rule.inputs, rule.attrs);
    let floats: Vec<usize> = (0..inputs.len()).filter(|&it| rule.needs[it]).collect();
    let results = |given: &Vec<Tensor>| {
        let mut operands = inputs.to_vec();
        floats.iter().zip(given).for_each(|(&at, it)| operands[at] = it.clone());
        body(attrs, &operands.iter().collect::<Vec<_>>()).into_vec()
    };
    let given: Vec<Tensor> = floats.iter().map(|&it| inputs[it].clone()).collect();
    let (_, pull) = vjp(results)(&given);
    let all = pull(&rule.cotangents.iter().map(|it| it.clone().expect("results of composites are floats")).collect());
    for (at, wanted) in floats.into_iter().zip(all) {
        let got = gradients[at].clone().unwrap_or_else(|| ops::zeros_like(&inputs[at]));
        assert_eq!(got.ty(), wanted.ty(), "gradient {at} of {}", def.name());
        let pairs = got.to_vec::<f64>().into_iter().zip(wanted.to_vec::<f64>());
        let is_near = |(got, wanted): (f64, f64)| (got - wanted).abs() <= 1e-9 * (1.0 + wanted.abs());
        assert!(pairs.into_iter().all(is_near), "gradient {at} of {}: {got:?}, not {wanted:?}", def.name());
    }
}

#[test]
fn elementwise_ops_and_reductions() {
    check_ops(0..350, &check_by_body);
}

#[test]
fn other_primitives() {
    check_ops(350..700, &check_by_body);
}

#[test]
fn composites() {
    check_ops(800..u16::MAX, &check_by_body);
}
