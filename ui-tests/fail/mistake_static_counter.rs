// A compiled function counts in a static.
use ms::prelude::*;

static mut CALLS: usize = 0;

#[jit]
fn f(x: &Tensor) -> Tensor {
    unsafe { CALLS += 1 };
    x * 2.0
}

fn main() {
    f(&Tensor::ones([2]));
}
