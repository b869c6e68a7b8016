// Outside annotated code `x < y` is Rust's, which returns a bool: write `x.lt(y)`.
use ms::prelude::*;

fn helper(x: &Tensor) -> Tensor {
    ops::select(&(x < 0.0), x, x)
}

fn main() {
    helper(&Tensor::scalar(1.0));
}
