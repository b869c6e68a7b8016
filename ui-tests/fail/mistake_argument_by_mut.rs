// A compiled function takes a cell by `&mut`.
use ms::prelude::*;

#[jit]
fn f(net: &mut nn::Dense, x: &Tensor) -> Tensor {
    net.call(x)
}

fn main() {
    f(&mut nn::Dense::new(2, 2), &Tensor::ones([1, 2]));
}
