use ms::prelude::*;

fn main() {
    let scale = 2.0;
    let net = nn::ReLU;
    let f = ms::jit(|x: &Tensor| net.call(&(x * scale)));
    f(&Tensor::scalar(1.0));
}
