//! A reference that is passed on in a branch is reborrowed there: a reference derived from it cannot outlive the branch.
use ms::prelude::*;

fn longer<'a>(a: &'a mut Tensor, b: &'a mut Tensor) -> &'a mut Tensor {
    if a.numel() > b.numel() { a } else { b }
}

fn is_large(n: i32) -> bool {
    n > 1
}

#[jit]
fn f(y: &mut Tensor, z: &mut Tensor, n: i32) {
    let mut last = Tensor::scalar(0.0);
    let mut current: &mut Tensor = &mut last;
    if is_large(n) {
        current = longer(y, z);
    }
    *current += 1.0;
}

fn main() {}
