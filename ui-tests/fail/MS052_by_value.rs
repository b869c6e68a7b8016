use ms::prelude::*;

fn main() {
    ms::jit(|x: Tensor| x + 1.0);
    ms::jit(3);
}
