// Differs from Rust: a `let` without a value cannot be given one by a decision on a tensor.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    let larger;
    if x > y {
        larger = x.clone();
    } else {
        larger = y.clone();
    }
    larger
}

fn main() {}
