// `net(&x)` outside annotated code.
//
// rustc has no place for a message of ours where a value that is no function is called. Write `net.call(&x)`.
use ms::prelude::*;

fn main() {
    let net = nn::Dense::new(2, 2);
    let y = net(&Tensor::ones([1, 2]));
    println!("{y}");
}
