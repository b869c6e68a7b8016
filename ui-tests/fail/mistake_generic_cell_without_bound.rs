// A generic cell calls a field without a bound.
use ms::prelude::*;

#[cell]
struct Residual<L> {
    inner: L,
}

#[cell]
impl<L> Residual<L> {
    fn construct(&self, x: &Tensor) -> Tensor {
        x + self.inner(x)
    }
}

fn main() {
    Residual { inner: nn::Dense::new(2, 2) }.call(&Tensor::ones([1, 2]));
}
