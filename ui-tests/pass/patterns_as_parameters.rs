//! Parameters are patterns, by value or by reference, `mut` or not.
use ms::prelude::*;

#[jit]
fn f((x, times): (Tensor, usize), [a, b]: &[Tensor; 2], mut total: Tensor, _: bool) -> Tensor {
    for _ in 0..times {
        total += &x * a - b;
    }
    total
}

#[derive(Clone, Tree)]
struct Point {
    x: Tensor,
    y: Tensor,
}

#[jit]
fn norm(Point { x, y }: &Point) -> Tensor {
    ops::sqrt(&(x * x + y * y))
}

#[test]
fn main() {
    let number = |it: f32| Tensor::scalar(it);
    for times in [2, 3] {
        let got = f((number(2.0), times), &[number(3.0), number(1.0)], number(0.5), true);
        assert_eq!(got.item::<f32>(), 0.5 + 5.0 * times as f32);
    }
    assert_eq!(norm(&Point { x: number(3.0), y: number(4.0) }).item::<f32>(), 5.0);
}
