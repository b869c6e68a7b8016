// The item is kept, so that its uses are no errors of their own.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> Tensor {
    let y = x.
}

fn main() {
    f(&Tensor::scalar(1.0));
}
