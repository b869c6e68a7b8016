// `while` on something that is no condition.
use ms::prelude::*;

#[jit]
fn count(x: &Tensor, n: i64) -> Tensor {
    let mut y = x.clone();
    while n {
        y = y * 2.0;
    }
    y
}

fn main() {
    count(&Tensor::scalar(2.0), 3);
}
