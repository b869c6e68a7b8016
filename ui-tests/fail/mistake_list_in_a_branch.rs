// An arm of a branch on a tensor changes a host value.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> Tensor {
    let mut name = "small";
    if x > 1.0 {
        name = "large";
    }
    println!("{name}");
    x * 2.0
}

fn main() {
    f(&Tensor::scalar(2.0));
}
