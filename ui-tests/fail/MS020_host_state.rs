// Differs from Rust: state that a branch on a tensor changes is a structure of tensors.
use ms::prelude::*;
use std::collections::HashSet;

#[jit]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    let mut seen = HashSet::new();
    let mut thread = std::thread::current().id();
    if x < y {
        seen.insert(1);
        thread = std::thread::current().id();
    }
    x.clone()
}

fn main() {}
