use ms::prelude::*;

#[jit]
fn f<T>(x: &Tensor, how: &T) -> Tensor {
    x.clone()
}

fn main() {}
