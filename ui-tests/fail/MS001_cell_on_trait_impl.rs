use ms::prelude::*;

#[cell]
struct Net;

trait Model {
    fn construct(&self, x: &Tensor) -> Tensor;
}

#[cell]
impl Model for Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
