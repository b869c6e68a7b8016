// A cell that is an argument is called with too few arguments.
use ms::prelude::*;

#[jit]
fn f(attn: &nn::MultiheadAttention, x: &Tensor) -> Tensor {
    attn(x)
}

fn main() {
    f(&nn::MultiheadAttention::new(4, 2), &Tensor::ones([1, 2, 4]));
}
