// A condition is a bool, or a tensor with one bool.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, names: &[String]) -> Tensor {
    let first = names.first();
    if first {
        return x.clone();
    }
    while x && first {}
    x.clone()
}

fn main() {}
