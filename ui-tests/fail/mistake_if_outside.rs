// `if` on a tensor outside annotated code.
use ms::prelude::*;

fn clip(x: &Tensor) -> Tensor {
    if x.gt(1.0) { x * 0.5 } else { x.clone() }
}

fn main() {
    clip(&Tensor::scalar(2.0));
}
