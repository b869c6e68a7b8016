// A number is not a condition.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, n: usize, text: &str) -> Tensor {
    if n {
        return x.clone();
    }
    assert!(text);
    if !n || x > 0.0 { x + 1.0 } else { x.clone() }
}

fn main() {}
