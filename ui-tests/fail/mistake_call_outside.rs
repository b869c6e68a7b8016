// `net(&x)` outside annotated code.
use ms::prelude::*;

fn main() {
    let net = nn::Dense::new(2, 2);
    let y = net(&Tensor::ones([1, 2]));
    println!("{y}");
}
