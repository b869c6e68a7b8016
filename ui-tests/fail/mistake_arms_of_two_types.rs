// The arms of a branch on a tensor have two types.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> Tensor {
    let y = if x > 1.0 { x * 2.0 } else { 0.0 };
    y + x
}

fn main() {
    f(&Tensor::scalar(2.0));
}
