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

#[jit]
fn halves(x: &Tensor, limit: &Tensor) -> (Tensor, Tensor) {
    let mut x = x.clone();
    let mut n = Tensor::scalar(0.0f32);
    while &x > limit && n < 5.0 {
        x = &x / 2.0;
        if x < 3.0 {
            n += 1.0;
        }
    }
    (x, n)
}

#[jit]
fn counted(x: &Tensor, n: &Tensor) -> Tensor {
    let mut sum = x * 0.0;
    for i in ms::range(0, 3) {
        sum += x * &i;
    }
    for i in ms::range(n, 10).step(4) {
        sum += &i;
    }
    sum
}

#[jit]
fn jumps(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = x.clone();
    for i in 0..6 {
        if i == 1 {
            continue;
        }
        out = out + y;
        if out > 10.0 {
            break;
        }
        if out == 5.0 {
            return out * 100.0;
        }
        out += 1.0;
    }
    out
}

#[jit]
fn device_jumps(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = x.clone();
    let mut i = Tensor::scalar(0.0f32);
    while i < 6.0 {
        i += 1.0;
        if i == 2.0 {
            continue;
        }
        out = out + y;
        if out > 10.0 {
            break;
        }
        if out == 5.0 {
            return out * 100.0;
        }
        out += 1.0;
    }
    out
}

#[jit]
fn endless(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    'outer: loop {
        x += 1.0;
        loop {
            x = x * 2.0;
            if x > 100.0 {
                break 'outer;
            }
            if x > 10.0 {
                break;
            }
        }
        if x == 18.0 {
            continue;
        }
        x += 0.5;
    }
    x
}

#[jit]
fn guards(x: &Tensor) -> Result<Tensor> {
    if x < 0.0 {
        return Ok(-x);
    }
    let y = x * 2.0;
    if y > 10.0 {
        return Ok(y);
    } else if y > 8.0 {
        return Ok(y + 0.5);
    }
    Ok(y + 100.0)
}

#[jit]
fn choice(x: &Tensor) -> Tensor {
    match x {
        0 => x + 1,
        2 | 3 => x * 10,
        other => -other,
    }
}

#[test]
fn loops() {
    for (x, limit, a, n) in [(16.0, 1.0, 1.0, 2.0), (0.5, 1.0, 0.5, 0.0), (100.0, 0.0, 100.0 / 1024.0, 5.0)] {
        let both = |it: &[Tensor]| {
            let (a, b) = halves(&it[0], &it[1]);
            vec![a, b]
        };
        check("halves", both, &f32s(&[x, limit]), &[&[a], &[n]]);
    }
    let inputs = [Tensor::scalar(2.0f32), Tensor::scalar(1i64)];
    check("counted", |it| vec![counted(&it[0], &it[1])], &inputs, &[&[6.0 + 1.0 + 5.0 + 9.0]]);
}

#[test]
fn jumps_out_of_regions() {
    let native = |x: f32, y: f32, one: i32| {
        let mut out = x;
        for i in 0..6 {
            if i == one {
                continue;
            }
            out += y;
            if out > 10.0 {
                break;
            }
            if out == 5.0 {
                return out * 100.0;
            }
            out += 1.0;
        }
        out
    };
    for (x, y) in [(0.0, 1.0), (1.0, 3.0), (2.0, 3.0), (4.0, 1.0), (0.0, -2.0)] {
        let want = [native(x, y, 1) as f64];
        check("jumps", |it| vec![jumps(&it[0], &it[1])], &f32s(&[x, y]), &[&want]);
        check("device_jumps", |it| vec![device_jumps(&it[0], &it[1])], &f32s(&[x, y]), &[&want]);
    }
    for (x, want) in [(0.0, 139.0), (3.5, 105.0 * 0.0 + 148.0)] {
        let _ = want;
        let mut native: f32 = x;
        'outer: loop {
            native += 1.0;
            loop {
                native *= 2.0;
                if native > 100.0 {
                    break 'outer;
                }
                if native > 10.0 {
                    break;
                }
            }
            if native == 18.0 {
                continue;
            }
            native += 0.5;
        }
        check("endless", |it| vec![endless(&it[0])], &f32s(&[x]), &[&[native as f64]]);
    }
    for (x, want) in [(-2.0, 2.0), (6.0, 12.0), (4.5, 9.5), (1.0, 102.0)] {
        check("guards", |it| vec![guards(&it[0]).expect("no refusal")], &f32s(&[x]), &[&[want]]);
    }
    for (x, want) in [(0, 1.0), (2, 20.0), (3, 30.0), (7, -7.0)] {
        check("choice", |it| vec![choice(&it[0])], &[Tensor::scalar(x as i64)], &[&[want]]);
    }
}
