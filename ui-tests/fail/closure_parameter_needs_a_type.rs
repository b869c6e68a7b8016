// Differs from Rust: the type of the left operand of a comparison must be known.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, n: usize) -> Tensor {
    let typed = |a: usize, b| a < b;
    let less = |a, b| a < b;
    if less(n, 3) && typed(n, 4) { x.clone() } else { x + 1.0 }
}

fn main() {}
