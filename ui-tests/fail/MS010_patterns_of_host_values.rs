// Only numbers, bools and tensors can be matched against numbers.
use ms::prelude::*;

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[jit]
fn f(x: &Tensor, text: &str) -> Tensor {
    match words(text) {
        0 => x + 1,
        _ => x + 2,
    }
}

fn main() {}
