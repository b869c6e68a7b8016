//! The target of a reference that is passed on is a structure of tensors.
use ms::prelude::*;
use std::collections::HashSet;

fn note(seen: &mut HashSet<String>) {
    seen.insert("x".to_owned());
}

#[jit]
fn f(x: &Tensor) -> Tensor {
    let mut seen = HashSet::new();
    let names = &mut seen;
    if x > 1.0 {
        note(names);
    }
    x * seen.len()
}

#[jit]
fn outward(y: &mut Tensor, z: &mut Tensor, x: &Tensor) {
    let mut best = z;
    if x > 1.0 {
        best = y;
    }
    *best += 1.0;
}

fn main() {}
