// A field is called with more arguments than its cell takes.
use ms::prelude::*;

#[cell]
struct Net {
    fc: nn::Dense,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc(x, x)
    }
}

fn main() {
    Net { fc: nn::Dense::new(2, 2) }.call(&Tensor::ones([1, 2]));
}
