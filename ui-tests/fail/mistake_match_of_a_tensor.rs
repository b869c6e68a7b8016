// A tensor is matched without an arm for the rest.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> Tensor {
    match x {
        0 => x + 1,
        1 => x + 2,
    }
}

fn main() {
    f(&Tensor::scalar(2.0));
}
