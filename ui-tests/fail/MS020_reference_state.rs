// Differs from Rust: a reference cannot be what a decision on a tensor changes.
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
