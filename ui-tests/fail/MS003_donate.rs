use ms::prelude::*;

#[jit(donate(z))]
fn no_such_argument(x: Tensor, y: Tensor) -> Tensor {
    x + y
}

#[jit(donate(x = 1, y))]
fn no_name(x: Tensor, y: Tensor) -> Tensor {
    x + y
}

fn main() {}
