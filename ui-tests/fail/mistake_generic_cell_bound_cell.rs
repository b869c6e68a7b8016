// A generic cell calls a field that is only bound to be a cell.
use ms::prelude::*;

#[cell]
struct Residual<L> {
    inner: L,
}

#[cell]
impl<L: Cell> Residual<L> {
    fn construct(&self, x: &Tensor) -> Tensor {
        x + self.inner(x)
    }
}

fn main() {
    Residual { inner: nn::Dense::new(2, 2) }.call(&Tensor::ones([1, 2]));
}
