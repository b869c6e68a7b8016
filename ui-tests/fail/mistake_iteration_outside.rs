// A tensor is iterated over by value of its elements as numbers.
use ms::prelude::*;

fn main() {
    let x = Tensor::ones([4]);
    let total: f32 = x.iter().sum();
    println!("{total}");
}
