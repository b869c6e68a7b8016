use ms::prelude::*;

#[cell]
enum Choice {
    A,
}

#[cell]
fn construct(x: &Tensor) -> Tensor {
    x.clone()
}

fn main() {}
