//! Recursion on host values, annotated functions that call each other, nested functions.
use ms::prelude::*;

#[jit]
fn power(x: &Tensor, n: u32) -> Tensor {
    fn odd(n: u32) -> bool {
        n % 2 == 1
    }
    if n == 0 {
        return Tensor::ones_like(x);
    }
    let half = power(x, n / 2);
    let square = &half * &half;
    if odd(n) { square * x } else { square }
}

#[jit]
fn both(x: &Tensor) -> (Tensor, Option<Tensor>) {
    (power(x, 3), Some(power(x, 4)))
}

#[test]
fn main() {
    let x = Tensor::scalar(2.0f32);
    assert_eq!(power(&x, 10).item::<f32>(), 1024.0);
    let (cube, fourth) = both(&x);
    assert_eq!((cube.item::<f32>(), fourth.map(|it| it.item::<f32>())), (8.0, Some(16.0)));
}
