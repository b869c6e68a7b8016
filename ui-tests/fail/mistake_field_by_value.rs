// A field is called with a tensor instead of a reference.
use ms::prelude::*;

#[cell]
struct Net {
    a: nn::Dense,
    b: nn::Dense,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.b(self.a(x))
    }
}

fn main() {
    Net { a: nn::Dense::new(2, 2), b: nn::Dense::new(2, 2) }.call(&Tensor::ones([1, 2]));
}
