use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> impl Clone {
    x.clone()
}

fn main() {}
