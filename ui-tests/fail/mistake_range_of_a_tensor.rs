// `x[1..3]`.
use ms::prelude::*;

fn main() {
    let x = Tensor::ones([4]);
    let y = &x[1..3];
    println!("{y}");
}
