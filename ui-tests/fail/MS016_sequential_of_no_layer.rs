use ms::prelude::*;

fn double(x: &Tensor) -> Tensor {
    x * 2.0
}

fn main() {
    nn::sequential![nn::ReLU, double];
}
