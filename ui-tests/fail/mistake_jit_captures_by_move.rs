// A closure for `ms::jit` captures a tensor by `move`.
use ms::prelude::*;

fn main() {
    let w = Tensor::ones([2]);
    let f = ms::jit(move |x: &Tensor| x * &w);
    f(&Tensor::ones([2]));
}
