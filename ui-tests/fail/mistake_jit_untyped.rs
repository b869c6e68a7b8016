// The argument of a closure for `ms::jit` has no type.
use ms::prelude::*;

fn main() {
    let f = ms::jit(|x| x * 2.0);
    f(&Tensor::ones([2]));
}
