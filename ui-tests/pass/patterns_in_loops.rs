//! `while let` and `let .. else` in loops that tensors leave early, and a typed `let` without an
//! initialiser.
#![deny(warnings)]
use ms::prelude::*;

#[jit]
fn steps(x: &Tensor, names: &[String]) -> Tensor {
    let mut out = x.clone();
    let mut rest = names.iter().enumerate();
    while let Some((i, name)) = rest.next() {
        if name == "skip" {
            continue;
        }
        let Some(weight) = name.strip_prefix("w") else { break };
        if out > 100.0 {
            break;
        }
        out = out * weight.len() + i;
        if out < 0.0 {
            continue;
        }
        out = out + 1.0;
    }
    out
}

#[jit]
fn chained(x: &Tensor, weights: &[f64]) -> Tensor {
    let (mut out, mut rest) = (x.clone(), weights.iter());
    while let Some(weight) = rest.next()
        && let Some(next) = rest.next()
        && out < 50.0
    {
        out = out * *weight + *next;
    }
    out
}

#[jit]
fn deferred(x: &Tensor) -> Tensor {
    let y: Tensor;
    if x.rank() == 0 {
        y = x + 1.0;
    } else {
        y = x * 2.0;
    }
    y
}

/// What it is in plain Rust.
fn native(x: f32, names: &[String]) -> f32 {
    let mut out = x;
    let mut rest = names.iter().enumerate();
    while let Some((i, name)) = rest.next() {
        if name == "skip" {
            continue;
        }
        let Some(weight) = name.strip_prefix("w") else { break };
        if out > 100.0 {
            break;
        }
        out = out * weight.len() as f32 + i as f32;
        if out < 0.0 {
            continue;
        }
        out += 1.0;
    }
    out
}

#[test]
fn main() {
    let lists = ["waaa,skip,waa,waaaaa", "wa,end,waa", "", "skip,waaaa,waaa,waaa,waa"];
    for list in lists {
        let names: Vec<String> = list.split(',').map(str::to_owned).collect();
        for x in [-3.0, 0.5, 4.0, 60.0, 200.0] {
            let want = native(x, &names);
            assert_eq!(steps(&Tensor::scalar(x), &names).item::<f32>(), want, "{list} {x}");
        }
    }
    for (x, want) in [(1.0, 23.0), (10.0, 68.0), (60.0, 60.0)] {
        let got = chained(&Tensor::scalar(x), &[2.0, 1.0, 3.0, 5.0, 1.0, 9.0, 0.0]);
        assert_eq!(got.item::<f32>(), want, "{x}");
    }
    assert_eq!(deferred(&Tensor::scalar(1.0)).item::<f32>(), 2.0);
    assert_eq!(deferred(&tensor![3.0]).item::<f32>(), 6.0);
}
