use ms::prelude::*;

struct Opaque;

#[jit]
fn f(x: &Tensor, how: &Opaque) -> Tensor {
    x.clone()
}

fn main() {}
