// A field of a `#[jit_class]` that is no cell is called.
use ms::prelude::*;

#[jit_class]
struct Scaled {
    factor: f64,
}

#[jit_class]
impl Scaled {
    fn call(&self, x: &Tensor) -> Tensor {
        self.factor(x)
    }
}

#[jit]
fn f(scaled: &Scaled, x: &Tensor) -> Tensor {
    scaled(x)
}

fn main() {
    f(&Scaled { factor: 2.0 }, &Tensor::ones([2]));
}
