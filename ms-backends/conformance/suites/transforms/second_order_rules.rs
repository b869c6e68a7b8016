//! Tests derivatives of derivatives of every op on its own samples. Rules consist of ops, which have rules too.

use ms::ops::{self, Derivative, Lowering, OpDef, Sample};
use ms::tensor::apply;
use ms::{DType, Tensor};

/// Returns the sample's operands, with floats as f64.
fn operands(sample: &Sample) -> Vec<Tensor> {
    let mut sample = sample.clone();
    sample.inputs.iter_mut().filter(|it| it.dtype.is_float()).for_each(|it| it.dtype = DType::F64);
    sample.arrays().into_iter().map(|it| Tensor::placed(it).expect("there is memory")).collect()
}

/// Returns a number that depends on all elements, each with a different weight.
fn weighted(x: &Tensor) -> Tensor {
    let weights: Vec<f64> = (0..x.numel()).map(|i| 0.5 + (i as f64 * 0.754_877_666).fract()).collect();
    ops::sum(x * Tensor::from_slice(x.shape(), &weights), ())
}

/// Returns the gradients of the weighted result with respect to the float operands.
fn gradients(def: &'static OpDef, sample: &Sample, inputs: &[Tensor]) -> Vec<Tensor> {
    let floats: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].dtype() == DType::F64).collect();
    let wrt: Vec<Tensor> = floats.iter().map(|&i| inputs[i].clone()).collect();
    let result = |tensors: &Vec<Tensor>| {
        let mut inputs = inputs.to_vec();
        floats.iter().zip(tensors).for_each(|(&i, tensor)| inputs[i] = tensor.clone());
        let outputs = apply(def.op(), &sample.attrs, &inputs.iter().collect::<Vec<_>>()).expect("a sample runs");
        let terms = outputs.iter().filter(|it| it.dtype() == DType::F64).map(weighted);
        terms.reduce(|a, b| a + b).expect("a float result")
    };
    ms::grad(result)(&wrt)
}

/// Returns the weighted sum of the squares of the gradients. It is not linear in them, as real losses are not.
fn curvature(def: &'static OpDef, sample: &Sample, inputs: &[Tensor]) -> Tensor {
    gradients(def, sample, inputs)
        .iter()
        .map(|it| weighted(&it.square()))
        .reduce(|a, b| a + b)
        .expect("a float operand")
}

#[test]
fn second_derivatives_agree_with_differences() {
    for def in ops::definitions() {
        let (Derivative::Rule(_) | Derivative::Read(_) | Derivative::Body) = ops::transform_rules(def).derivative
        else {
            continue;
        };
        let mut checked = matches!(def.lowering, Lowering::Regions(_));
        for sample in (def.samples)() {
            let inputs = operands(&sample);
            let outputs = apply(def.op(), &sample.attrs, &inputs.iter().collect::<Vec<_>>()).expect("a sample runs");
            let small = inputs.iter().all(|it| it.numel() <= 150);
            if !small || outputs[0].dtype() != DType::F64 || sample.inputs.iter().any(|it| it.dtype == DType::F16) {
                continue;
            }
            for at in (0..inputs.len()).filter(|&i| inputs[i].dtype() == DType::F64 && inputs[i].numel() > 0) {
                check(def, &sample, &inputs, at);
                checked = true;
            }
        }
        assert!(checked, "no sample of `{}` has float operands of at most 150 elements", def.name());
    }
}

fn check(def: &'static OpDef, sample: &Sample, inputs: &[Tensor], at: usize) {
    let with = |tensor: Tensor| {
        let mut inputs = inputs.to_vec();
        inputs[at] = tensor;
        inputs
    };
    let second = ms::grad(|x: &Tensor| curvature(def, sample, &with(x.clone())))(&inputs[at]);

    let element = inputs[at].numel() / 2;
    let moved = |step: f64| {
        let mut values = inputs[at].to_vec::<f64>();
        values[element] += step;
        curvature(def, sample, &with(Tensor::from_slice(inputs[at].shape(), &values))).item::<f64>()
    };
    let (got, want) = (second.to_vec::<f64>()[element], (moved(1e-5) - moved(-1e-5)) / 2e-5);
    assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "operand {at} of `{}`: {got}, not {want}", def.name());
}

/// The tangent in the direction of a gradient equals the gradient in the direction of the tangent.
#[test]
fn tangents_agree_with_gradients() {
    for def in ops::definitions() {
        let (Derivative::Rule(_) | Derivative::Read(_) | Derivative::Body) = ops::transform_rules(def).derivative
        else {
            continue;
        };
        for sample in (def.samples)() {
            let inputs = operands(&sample);
            let floats: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].dtype() == DType::F64).collect();
            let outputs = apply(def.op(), &sample.attrs, &inputs.iter().collect::<Vec<_>>()).expect("a sample runs");
            if floats.is_empty() || !outputs.iter().any(|it| it.dtype() == DType::F64) {
                continue;
            }
            let result = |tensors: &Vec<Tensor>| {
                let mut inputs = inputs.clone();
                floats.iter().zip(tensors).for_each(|(&i, tensor)| inputs[i] = tensor.clone());
                let outputs =
                    apply(def.op(), &sample.attrs, &inputs.iter().collect::<Vec<_>>()).expect("a sample runs");
                outputs.into_iter().filter(|it| it.dtype() == DType::F64).collect::<Vec<_>>()
            };
            let x: Vec<Tensor> = floats.iter().map(|&i| inputs[i].clone()).collect();
            let scattered = |like: &Tensor, seed: f64| {
                let values: Vec<f64> =
                    (0..like.numel()).map(|i| ((i as f64 + seed) * 0.618_033_988_749_894_9).fract() - 0.5).collect();
                Tensor::from_slice(like.shape(), &values)
            };
            let tangents: Vec<Tensor> = x.iter().enumerate().map(|(i, it)| scattered(it, i as f64 + 1.0)).collect();
            let (y, pull) = ms::vjp(result)(&x);
            let cotangents: Vec<Tensor> = y.iter().map(|it| scattered(it, 7.3)).collect();
            let dot = |a: &[Tensor], b: &[Tensor]| -> f64 {
                a.iter().zip(b).map(|(a, b)| ops::sum(a * b, ()).item::<f64>()).sum()
            };
            let want = dot(&pull(&cotangents), &tangents);
            let eagerly = dot(&ms::jvp(result)(&x, &tangents).1, &cotangents);
            assert!((eagerly - want).abs() <= 1e-9 * (1.0 + want.abs()), "`{}`: {eagerly}, not {want}", def.name());
        }
    }
}
