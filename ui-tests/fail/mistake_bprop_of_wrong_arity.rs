// `bprop` lacks the result and its gradient.
use ms::prelude::*;

#[cell]
struct Square;

#[cell]
impl Square {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * x
    }

    fn bprop(&self, x: &Tensor, dout: &Tensor) -> (Tensor,) {
        (2.0 * x * dout,)
    }
}

fn main() {
    Square.call(&Tensor::ones([2]));
}
