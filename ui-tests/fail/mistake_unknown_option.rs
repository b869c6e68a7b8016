// An option that `#[jit]` does not have.
use ms::prelude::*;

#[jit(dynamic)]
fn f(x: &Tensor) -> Tensor {
    x * 2.0
}

fn main() {
    f(&Tensor::scalar(2.0));
}
