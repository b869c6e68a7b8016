use ms::prelude::*;

#[jit(fast, crat = ms)]
fn f(x: &Tensor) -> Tensor {
    x.clone()
}

#[cell]
struct Net {
    #[cell(skp)]
    weight: Parameter,
}

fn main() {}
