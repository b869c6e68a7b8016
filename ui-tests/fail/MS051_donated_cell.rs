// A donated argument is a structure of tensors: a cell keeps its parameters.
use ms::prelude::*;

#[jit(donate(net))]
fn apply(net: nn::Dense, x: &Tensor) -> Tensor {
    net(x)
}

fn main() {}
