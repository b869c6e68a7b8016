//! Checks numbered cases of gradients, eagerly and compiled.

use ms::prelude::*;
use ms::{Context, with_context};

/// Runs a case eagerly and compiled. Both must return these numbers, tensor by tensor.
pub fn case(name: &str, run: impl Fn() -> Vec<Tensor>, want: &[&[f32]]) {
    for jit in [false, true] {
        let got = with_context(Context { jit, ..ms::context() }, &run);
        let got: Vec<Vec<f32>> = got.iter().map(|it| it.to_vec::<f32>()).collect();
        let close = |(got, want): (&Vec<f32>, &&[f32])| {
            got.len() == want.len() && got.iter().zip(*want).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()))
        };
        let same = got.len() == want.len() && got.iter().zip(want).all(close);
        assert!(same, "{name}, jit {jit}: {got:?}, not {want:?}");
    }
}

/// Returns a tensor of one number.
pub fn scalar(value: f32) -> Tensor {
    Tensor::scalar(value)
}

/// Returns a pair of tensors as a list.
pub fn pair((a, b): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![a, b]
}
