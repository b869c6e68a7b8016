// The result of a compiled function is a struct without a derive.
use ms::prelude::*;

struct Output {
    logits: Tensor,
}

#[jit]
fn f(x: &Tensor) -> Output {
    Output { logits: x * 2.0 }
}

fn main() {
    f(&Tensor::ones([2]));
}
