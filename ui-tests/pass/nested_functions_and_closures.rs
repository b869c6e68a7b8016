//! Functions inside functions, closures that capture and mutate, and helpers without annotations.
use ms::prelude::*;

fn helper(x: &Tensor, f: impl Fn(&Tensor) -> Tensor) -> Tensor {
    f(&f(x))
}

#[jit]
fn outer(x: &Tensor, by: i64) -> Tensor {
    fn shift(x: &Tensor, by: i64) -> Tensor {
        x + by
    }
    #[jit]
    fn inner(x: &Tensor) -> Tensor {
        if x.rank() > 0 { x * 2.0 } else { x * 3.0 }
    }
    let mut calls = 0;
    let mut count = |x: &Tensor| {
        calls += 1;
        shift(x, by)
    };
    let once = count(x);
    let shifted = count(&once);
    let doubled = helper(&shifted, |x| inner(x) - by as f64);
    doubled * calls
}

#[test]
fn main() {
    for _ in 0..2 {
        assert_eq!(outer(&Tensor::scalar(1.0f32), 1).item::<f32>(), 46.0);
        assert_eq!(outer(&tensor![1.0], 2).to_vec::<f32>(), [28.0]);
    }
}
