// Differs from Rust: a branch on a tensor cannot initialise a `let` without an initialiser.
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
