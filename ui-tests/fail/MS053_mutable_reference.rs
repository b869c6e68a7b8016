use ms::prelude::*;

#[cell]
struct Net {
    weight: Parameter,
}

#[jit]
fn f(net: &mut Net, x: &Tensor) -> Tensor {
    x * &net.weight
}

fn main() {}
