// A `#[jit_class]` without a method `call` is called.
use ms::prelude::*;

#[jit_class]
struct Scale {
    by: f64,
}

#[jit_class]
impl Scale {
    fn run(&self, x: &Tensor) -> Tensor {
        x * self.by
    }
}

#[jit]
fn f(scale: &Scale, x: &Tensor) -> Tensor {
    scale(x)
}

fn main() {
    f(&Scale { by: 2.0 }, &Tensor::ones([2]));
}
