// `match` on tensors: numbers, ranges, several at once, guards, names, tuples, as statement and value.
use ms::prelude::*;

#[jit]
fn kinds(x: &Tensor) -> Tensor {
    match x {
        0 => x + 100,
        1 | 2 => x * 10,
        n @ 3..=5 => n * n,
        n if n > 50 => -n,
        6.. => x + 1000,
        -3 => x * 0,
        other => other - 1,
    }
}

#[jit]
fn of_floats(x: &Tensor, scale: f32) -> Tensor {
    let mut y = x.clone();
    match y {
        0.5 => y = y + 1.0,
        ..0.0 if scale > 1.0 => y = y * scale,
        1.0..2.0 => {
            y += 0.25;
            y = y * 2.0;
        }
        _ => {}
    }
    y
}

#[jit]
fn of_two(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    match (x, y, n) {
        (0, 0, _) => Tensor::scalar(0),
        (0, b, 1) => b * 7,
        (a, 1..=9, m) => a * m as i64,
        (a, b, _) if a > b => a - b,
        (a, b, _) => a + b,
    }
}

#[jit]
fn jumps(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    'steps: loop {
        match x {
            0 => return x - 7,
            1..=20 => x = x * 2,
            21.. if x == 40 => break 'steps,
            21.. => break,
            _ => {
                x += 3;
                continue;
            }
        }
        x += 1;
    }
    x + 1000
}

/// What is matched is a host value, and a guard is a tensor.
#[jit]
fn guards(x: &Tensor, n: usize) -> Tensor {
    match n {
        0 => x + 1,
        1 if x > 5 => x * 10,
        _ if x > 3 => x * 100,
        many => x + many as i64,
    }
}

#[test]
fn main() {
    let scalar = |it: i64| Tensor::scalar(it);
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let kinds = |it: i64| kinds(&Tensor::scalar(it)).item::<i64>();
            assert_eq!([0, 1, 2, 4, 7, 51, -3, -5].map(kinds), [100, 10, 20, 16, 1007, -51, 0, -6]);
            let floats = |x: f32| of_floats(&Tensor::scalar(x), 2.0).item::<f32>();
            assert_eq!([0.5, -3.0, 1.5, 2.0].map(floats), [1.5, -6.0, 3.5, 2.0]);
            let two = |(x, y, n)| of_two(&scalar(x), &scalar(y), n).item::<i64>();
            assert_eq!([(0, 0, 3), (0, 5, 1), (4, 9, 3), (30, 20, 1), (3, 20, 1)].map(two), [0, 35, 12, 10, 23]);
            let guards = |(x, n)| guards(&scalar(x), n).item::<i64>();
            assert_eq!([(9, 0), (9, 1), (4, 1), (2, 1), (2, 5)].map(guards), [10, 90, 400, 3, 7]);
            let native = |mut x: i64| {
                'steps: loop {
                    match x {
                        0 => return x - 7,
                        1..=20 => x = x * 2,
                        21.. if x == 40 => break 'steps,
                        21.. => break,
                        _ => {
                            x += 3;
                            continue;
                        }
                    }
                    x += 1;
                }
                x + 1000
            };
            for x in [-7, -6, 0, 1, 19, 20, 40, 90] {
                assert_eq!(jumps(&scalar(x)).item::<i64>(), native(x), "{x}");
            }
        });
    }
}
