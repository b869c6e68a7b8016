// A field that does not exist has no method.
use ms::prelude::*;

#[cell]
struct Net {
    layer: nn::ReLU,
}

#[jit]
fn f(net: &Net, x: &Tensor) -> Tensor {
    net.layr(x)
}

fn main() {}
