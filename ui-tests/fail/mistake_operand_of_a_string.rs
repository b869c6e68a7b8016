// A tensor is multiplied by a string.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, name: &str) -> Tensor {
    x * name
}

fn main() {
    f(&Tensor::ones([2]), "x");
}
