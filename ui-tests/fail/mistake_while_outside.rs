// `while` on a tensor outside annotated code.
//
// rustc takes a `bool` and nothing else there, and has no place for a message of ours. Write `#[jit]` on the function, or
// read the value: `while x.lt(100.0).item()`.
use ms::prelude::*;

fn grow(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x.lt(100.0) {
        x = x * 2.0;
    }
    x
}

fn main() {
    grow(&Tensor::scalar(2.0));
}
