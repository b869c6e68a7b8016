// An argument of a compiled function is a struct without a derive.
use ms::prelude::*;

struct Options {
    rate: f64,
}

#[jit]
fn f(x: &Tensor, options: &Options) -> Tensor {
    x * options.rate
}

fn main() {
    f(&Tensor::ones([2]), &Options { rate: 0.1 });
}
