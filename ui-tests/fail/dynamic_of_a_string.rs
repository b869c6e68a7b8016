// `#[dynamic]` makes a tensor of a number.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, #[dynamic] how: &str) -> Tensor {
    x * how
}

fn main() {}
