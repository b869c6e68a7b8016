// `if` on a tensor outside annotated code.
//
// rustc takes a `bool` and nothing else there, and has no place for a message of ours. Write `#[jit]` on the
// function, or read the value: `if x.gt(1.0).item()`.
use ms::prelude::*;

fn clip(x: &Tensor) -> Tensor {
    if x.gt(1.0) { x * 0.5 } else { x.clone() }
}

fn main() {
    clip(&Tensor::scalar(2.0));
}
