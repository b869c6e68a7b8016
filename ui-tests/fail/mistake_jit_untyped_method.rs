// The argument of a closure for `ms::jit`, on which a method is called, has no type.
//
// The type is `&Tensor`: `|x: &Tensor| x.relu()`.
use ms::prelude::*;

fn main() {
    let f = ms::jit(|x| x.relu());
    f(&Tensor::ones([2]));
}
