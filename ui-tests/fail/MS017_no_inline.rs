use ms::prelude::*;

#[no_inline]
struct Plain {
    size: usize,
}

#[no_inline]
enum Choice {
    A,
}

#[no_inline]
impl Plain {}

#[no_inline(always)]
fn scaled(x: &Tensor) -> Tensor {
    x * 2.0
}

fn main() {}
