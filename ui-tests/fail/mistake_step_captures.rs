// The loss that is compiled captures the labels.
use ms::prelude::*;

fn main() {
    let net = nn::Dense::new(2, 2);
    let labels = tensor![0, 1];
    let loss = |net: &nn::Dense, x: &Tensor| ops::cross_entropy(net.call(x), &labels);
    Adam::new(1e-3).step(&net, &Tensor::ones([2, 2]), loss);
}
