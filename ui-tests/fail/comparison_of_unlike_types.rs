use ms::prelude::*;

#[jit]
fn f(x: &Tensor, name: String) -> Tensor {
    x < name
}

fn main() {}
