use ms::prelude::*;

#[jit(dims(z = [batch, _]))]
fn no_such_argument(x: &Tensor) -> Tensor {
    x + 1.0
}

#[jit(dims(x = [batch, 2 + 3], y))]
fn no_such_sizes(x: &Tensor) -> Tensor {
    x + 1.0
}

fn main() {}
