// A tensor and a string do not compare.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, name: String) -> Tensor {
    x < name
}

fn main() {}
