// A compiled function returns a reference.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> &Tensor {
    x
}

fn main() {
    f(&Tensor::scalar(2.0));
}
