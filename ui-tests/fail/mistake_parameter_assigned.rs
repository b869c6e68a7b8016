// `construct` replaces a parameter by a tensor.
use ms::prelude::*;

#[cell]
struct Net {
    mean: Parameter,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.mean = x.mean(0);
        x - &self.mean
    }
}

fn main() {
    Net { mean: Parameter::new(Tensor::ones([2]), "mean") }.call(&Tensor::ones([2, 2]));
}
