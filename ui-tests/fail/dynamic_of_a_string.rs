// `#[dynamic]` accepts numbers only.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, #[dynamic] how: &str) -> Tensor {
    x * how
}

fn main() {}
