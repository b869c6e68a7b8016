use ms::prelude::*;

fn main() {
    let scale = Tensor::scalar(2.0);
    let f = ms::closure::jit!(move |x: &Tensor| x * &scale);
    f(&Tensor::scalar(1.0));
}
