use ms::prelude::*;

struct Opaque;

#[jit]
fn f(x: &Tensor) -> Opaque {
    Opaque
}

fn main() {}
