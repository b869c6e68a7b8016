// `x[0]`.
use ms::prelude::*;

#[jit]
fn first(x: &Tensor) -> Tensor {
    x[0] * 2.0
}

fn main() {
    first(&Tensor::ones([2]));
}
