// A closure for `ms::jit` captures a tensor.
use ms::prelude::*;

fn main() {
    let w = Tensor::ones([2]);
    let f = ms::jit(|x: &Tensor| x * &w);
    f(&Tensor::ones([2]));
}
