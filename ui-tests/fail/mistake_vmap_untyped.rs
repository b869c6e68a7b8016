// The arguments of a closure for `ms::vmap` have no types.
use ms::prelude::*;

fn main() {
    let f = ms::vmap(|x, y| ops::add(x, y)).in_axes((0, 0));
    f(&Tensor::ones([2]), &Tensor::ones([2]));
}
