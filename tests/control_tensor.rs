//! Control flow on tensors: eagerly it runs as Rust, traced it becomes nodes with regions, and both
//! give the same.

use ms::prelude::*;
use ms::trace::build;
use ms::{Context, ops::evaluate_graph, tensor::Array};

fn eagerly<R>(run: impl FnOnce() -> R) -> R {
    ms::with_context(Context { jit: false, ..ms::context() }, run)
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.try_array().expect("an array").scalars().into_iter().map(|it| it.as_f64()).collect()
}

/// The results eagerly, compiled, and by the meaning of the traced graph.
#[track_caller]
fn check(name: &str, f: impl Fn(&[Tensor]) -> Vec<Tensor>, inputs: &[Tensor], want: &[&[f64]]) {
    let got: Vec<Vec<f64>> = eagerly(|| f(inputs)).iter().map(values).collect();
    assert_eq!(got, want, "{name}, eagerly");
    for _ in 0..2 {
        let got: Vec<Vec<f64>> = f(inputs).iter().map(values).collect();
        assert_eq!(got, want, "{name}, compiled");
    }
    let types: Vec<_> = inputs.iter().map(Tensor::ty).collect();
    let graph = build(name, &types, |inputs| Ok(f(inputs))).unwrap_or_else(|error| panic!("{name}: {error}"));
    ms::ops::verify(&graph).unwrap_or_else(|error| panic!("{name}: {error}\n{graph}"));
    let arrays: Vec<Array> = inputs.iter().map(|it| it.try_array().expect("an array")).collect();
    let outputs = evaluate_graph(&graph, &arrays.iter().collect::<Vec<_>>()).expect("a graph that runs");
    let got: Vec<Vec<f64>> = outputs.into_iter().map(|it| values(&Tensor::from_array(it))).collect();
    assert_eq!(got, want, "{name}, traced\n{graph}");
}

fn f32s(values: &[f32]) -> Vec<Tensor> {
    values.iter().map(|&it| Tensor::scalar(it)).collect()
}

#[jit]
fn statement(x: &Tensor, y: &Tensor) -> Tensor {
    let mut x = x + 1.0;
    let mut y = y.clone();
    if &x < &y {
        y += &x;
    } else {
        y = y - &x;
    }
    x += 1.0;
    y + 5.0 + x * 0.0
}

#[jit]
fn value(x: &Tensor, y: &Tensor) -> Tensor {
    let z = if x < y && y < 10.0 {
        x + y
    } else if x == y {
        x * 2.0
    } else {
        x - y
    };
    z * 2.0
}

#[jit]
fn nested(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    let mut n = Tensor::scalar(0.0f32);
    let mut pair = (x.clone(), vec![y.clone()]);
    if x > 0.0 {
        n += 1.0;
        if y > 0.0 {
            n += 2.0;
            pair.0 = &pair.0 * 10.0;
        } else {
            pair.1[0] = &n + 100.0;
        }
    }
    (n, pair.0 + &pair.1[0])
}

#[test]
fn if_statements_and_values() {
    let cases: [(f32, f32, f64, f64, [f64; 2]); 4] = [
        (2.0, 5.0, 13.0, 14.0, [3.0, 25.0]),
        (5.0, 2.0, 1.0, 6.0, [3.0, 52.0]),
        (3.0, 3.0, 4.0, 12.0, [3.0, 33.0]),
        (2.0, -1.0, 1.0, 6.0, [1.0, 103.0]),
    ];
    for (x, y, a, b, [c, d]) in cases {
        let inputs = f32s(&[x, y]);
        check("statement", |it| vec![statement(&it[0], &it[1])], &inputs, &[&[a]]);
        check("value", |it| vec![value(&it[0], &it[1])], &inputs, &[&[b]]);
        let both = |it: &[Tensor]| {
            let (a, b) = nested(&it[0], &it[1]);
            vec![a, b]
        };
        check("nested", both, &inputs, &[&[c], &[d]]);
    }
}
