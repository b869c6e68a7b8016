// One of the places where annotated code differs from Rust: the left side of a comparison is known.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, n: usize) -> Tensor {
    let typed = |a: usize, b| a < b;
    let less = |a, b| a < b;
    if less(n, 3) && typed(n, 4) { x.clone() } else { x + 1.0 }
}

fn main() {}
