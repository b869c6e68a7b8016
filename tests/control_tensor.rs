//! Control flow on tensors: eagerly it runs as Rust, traced it becomes nodes with regions, and both
//! give the same.

#[path = "common/paths.rs"]
mod paths;

use ms::prelude::*;
use paths::{check, scalars};

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
        let inputs = scalars(&[x, y]);
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
        check("halves", both, &scalars(&[x, limit]), &[&[a], &[n]]);
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
        check("jumps", |it| vec![jumps(&it[0], &it[1])], &scalars(&[x, y]), &[&want]);
        check("device_jumps", |it| vec![device_jumps(&it[0], &it[1])], &scalars(&[x, y]), &[&want]);
    }
    for x in [0.0, 3.5, 8.0] {
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
        check("endless", |it| vec![endless(&it[0])], &scalars(&[x]), &[&[native as f64]]);
    }
    for (x, want) in [(-2.0, 2.0), (6.0, 12.0), (4.5, 9.5), (1.0, 102.0)] {
        check("guards", |it| vec![guards(&it[0]).expect("no refusal")], &scalars(&[x]), &[&[want]]);
    }
    for (x, want) in [(0, 1.0), (2, 20.0), (3, 30.0), (7, -7.0)] {
        check("choice", |it| vec![choice(&it[0])], &[Tensor::scalar(x as i64)], &[&[want]]);
    }
}
