// The item is emitted, so that its uses are not errors as well.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> Tensor {
    let y = x.
}

fn main() {
    f(&Tensor::scalar(1.0));
}
