// `x[0] = 1.0`.
use ms::prelude::*;

fn main() {
    let mut x = Tensor::ones([4]);
    x[0] = 1.0;
}
