// `bprop` returns a tensor instead of a tuple.
use ms::prelude::*;

#[cell]
struct Square;

#[cell]
impl Square {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * x
    }

    fn bprop(&self, x: &Tensor, out: &Tensor, dout: &Tensor) -> Tensor {
        2.0 * x * dout
    }
}

fn main() {
    Square.call(&Tensor::ones([2]));
}
