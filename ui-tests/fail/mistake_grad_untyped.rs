// The argument of a closure for `ms::grad` has no type.
use ms::prelude::*;

fn main() {
    let f = ms::grad(|x| ops::sum(x, ()));
    f(&Tensor::ones([2]));
}
