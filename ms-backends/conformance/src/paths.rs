//! Runs a program on all execution paths: eagerly, compiled, and by reference evaluation of its graph.

use ms::Context;
use ms::internals::trace::build;
use ms::ops::{evaluate_graph, verify};
use ms::prelude::*;
use ms::tensor::Array;

/// Runs without compiling, as `MS_JIT=0` does.
pub fn eagerly<R>(run: impl FnOnce() -> R) -> R {
    ms::with_context(Context { jit: false, ..ms::context() }, run)
}

/// Returns the elements as numbers.
pub fn values(tensor: &Tensor) -> Vec<f64> {
    tensor
        .try_array()
        .and_then(ms::tensor::Array::into_host)
        .expect("an array")
        .scalars()
        .into_iter()
        .map(|it| it.as_f64())
        .collect()
}

/// Checks the results of `f` on every path.
#[track_caller]
pub fn check(name: &str, f: impl Fn(&[Tensor]) -> Vec<Tensor>, inputs: &[Tensor], want: &[&[f64]]) {
    let all = |results: &[Tensor]| -> Vec<Vec<f64>> { results.iter().map(values).collect() };
    assert_eq!(all(&eagerly(|| f(inputs))), want, "{name}, eagerly");
    for _ in 0..2 {
        assert_eq!(all(&f(inputs)), want, "{name}, compiled");
    }
    let types: Vec<_> = inputs.iter().map(Tensor::ty).collect();
    let graph = build(name, &types, |inputs| Ok(f(inputs))).unwrap_or_else(|error| panic!("{name}: {error}"));
    verify(&graph).unwrap_or_else(|error| panic!("{name}: {error}\n{graph}"));
    let mut arrays: Vec<Array> = inputs.iter().map(|it| it.try_array().expect("an array")).collect();
    // Inputs after the arguments are parameters, which the programs set before they read them.
    for &slot in &graph.inputs()[inputs.len()..] {
        let ty = graph.ty(slot);
        let zeros = Tensor::zeros_of(ty.shape().expect("parameters have constant shapes"), ty.dtype);
        arrays.push(zeros.try_array().expect("an array"));
    }
    let outputs = evaluate_graph(&graph, &arrays.iter().collect::<Vec<_>>())
        .unwrap_or_else(|error| panic!("{name}: {error}\n{graph}"));
    // Outputs after the results are the final values of parameters.
    let results: Vec<Tensor> = outputs.into_iter().take(want.len()).map(Tensor::from_array).collect();
    assert_eq!(all(&results), want, "{name}, traced\n{graph}");
}

/// Returns a tensor for each number.
pub fn scalars(values: &[f32]) -> Vec<Tensor> {
    values.iter().map(|&it| Tensor::scalar(it)).collect()
}
