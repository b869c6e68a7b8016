// A struct without `#[cell]` is trained.
use ms::prelude::*;

struct Net {
    w: Parameter,
}

fn main() {
    let net = Net { w: Parameter::new(Tensor::ones([2]), "w") };
    let loss = |net: &Net, x: &Tensor| ops::sum(x * &net.w, ());
    Adam::new(1e-3).step(&net, &Tensor::ones([2]), loss);
}
