use ms::prelude::*;

fn helper(x: &Tensor) -> Tensor {
    x.clone()
}

fn main() {
    let f = ms::closure::jit!(helper);
    let g = ms::closure::jit!(|x: &Tensor| x +);
}
