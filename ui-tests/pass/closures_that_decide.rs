// Nested functions and closures with separate control flow.
use ms::prelude::*;

#[jit]
fn outer(x: &Tensor, limit: f32) -> Tensor {
    fn scale(x: &Tensor) -> Tensor {
        x * 0.5
    }
    let clip = |x: &Tensor| -> Tensor {
        if x > limit {
            return Tensor::scalar(limit);
        }
        for i in 0..3 {
            if x < -i {
                return x * 10.0;
            }
        }
        scale(x)
    };
    let mut calls = Tensor::scalar(0.0f32);
    let mut count = |x: Tensor| {
        calls += 1.0;
        if x < 0.0 { -x } else { x }
    };
    let sum = count(clip(x)) + count(clip(&(x - 3.0)));
    sum + calls * 1000.0
}

#[test]
fn main() {
    let clip = |x: f32, limit: f32| match x {
        x if x > limit => limit,
        x if x < 0.0 => x * 10.0,
        x => x * 0.5,
    };
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            for x in [-2.0f32, 0.0, 1.0, 4.0, 20.0] {
                let want = clip(x, 5.0).abs() + clip(x - 3.0, 5.0).abs() + 2000.0;
                assert_eq!(outer(&Tensor::scalar(x), 5.0).item::<f32>(), want, "{x}");
            }
        });
    }
}
