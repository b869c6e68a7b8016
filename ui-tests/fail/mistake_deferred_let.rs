// A `let` without a value that a branch on a tensor initialises.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> Tensor {
    let y;
    if x > 1.0 {
        y = x * 2.0;
    } else {
        y = x.clone();
    }
    y
}

fn main() {
    f(&Tensor::scalar(2.0));
}
