//! `if` on a tensor: as a statement, as a value, nested, and mixed with host conditions.
use ms::prelude::*;

#[jit]
fn statement(x: &Tensor, y: &Tensor, double: bool) -> (Tensor, Tensor) {
    let mut small = x.clone();
    let mut steps = vec![Tensor::scalar(0.0f32)];
    if y < x {
        small = y.clone();
        steps[0] += 1.0;
        if double {
            small = &small * 2.0;
        }
    } else if x == y {
        steps[0] -= 1.0;
    }
    (small, steps[0].clone())
}

#[jit]
fn value(x: &Tensor) -> Tensor {
    let sign = if x > 0.0 { 1.0 * x / x } else if x < 0.0 { -x / x } else { x * 0.0 };
    sign * 10.0
}

#[test]
fn main() {
    let number = |it: f32| Tensor::scalar(it);
    for jit in [true, false] {
        ms::with_context(Context { jit, ..ms::context() }, || {
            let run = |x, y, double| {
                let (small, steps) = statement(&number(x), &number(y), double);
                (small.item::<f32>(), steps.item::<f32>())
            };
            assert_eq!(run(1.0, 2.0, true), (1.0, 0.0));
            assert_eq!(run(2.0, 1.0, true), (2.0, 1.0));
            assert_eq!(run(2.0, 1.0, false), (1.0, 1.0));
            assert_eq!(run(2.0, 2.0, false), (2.0, -1.0));
            assert_eq!([3.0, -3.0].map(|it| value(&number(it)).item::<f32>()), [10.0, -10.0]);
        });
    }
}
