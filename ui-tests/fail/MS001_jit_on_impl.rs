use ms::prelude::*;

struct Net;

#[jit]
impl Net {
    fn run(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
