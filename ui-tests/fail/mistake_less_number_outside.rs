// `x < 0.0` outside annotated code.
use ms::prelude::*;

fn clip(x: &Tensor) -> Tensor {
    ops::select(&(x < 0.0), x, x)
}

fn main() {
    clip(&Tensor::ones([2]));
}
