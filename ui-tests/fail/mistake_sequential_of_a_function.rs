// A function in a sequence of layers.
use ms::prelude::*;

fn double(x: &Tensor) -> Tensor {
    x * 2.0
}

fn main() {
    let net = nn::sequential![nn::Dense::new(2, 2), double];
    net.call(&Tensor::ones([1, 2]));
}
