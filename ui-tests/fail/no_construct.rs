// A cell without `construct` cannot be called.
use ms::prelude::*;

#[cell]
struct Net {
    weight: Parameter,
}

fn main() {
    let net = Net { weight: Parameter::new(Tensor::scalar(1.0), "") };
    net.call(&Tensor::scalar(1.0));
}
