use ms::prelude::*;

#[lazy_inline]
fn block(x: &Tensor) -> Tensor {
    x.clone()
}

#[lazy_inline]
struct Plain {
    size: usize,
}

fn main() {}
