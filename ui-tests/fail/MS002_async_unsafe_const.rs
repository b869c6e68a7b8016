use ms::prelude::*;

#[jit]
async fn waits(x: &Tensor) -> Tensor {
    x.clone()
}

#[jit]
unsafe fn is_unsafe(x: &Tensor) -> Tensor {
    x.clone()
}

#[jit]
const fn is_const(x: &Tensor) -> usize {
    0
}

#[jit]
extern "C" fn is_extern(x: &Tensor) -> usize {
    0
}

fn main() {}
