// rustc's own errors in annotated bodies have the spans of the user's tokens.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, n: usize) -> Tensor {
    let y: f32 = n;
    x.does_not_exist()
}

#[cell]
struct Net {
    size: usize,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.sizes
    }
}

fn main() {}
