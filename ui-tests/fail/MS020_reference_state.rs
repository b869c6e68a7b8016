// Differs from Rust: a branch on a tensor cannot rebind a reference.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    let mut best = x;
    if x < y {
        best = y;
    }
    best.clone()
}

fn main() {}
