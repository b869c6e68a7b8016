// Differs from Rust: a value that is not `Clone` cannot be moved in both arms of a branch whose type
// is not evident from the text.
use ms::prelude::*;

struct Token(usize);

fn consume(it: Token) -> f64 {
    it.0 as f64
}

#[jit]
fn f(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let token = Token(n);
    if x < y { x * consume(token) } else { y * consume(token) }
}

fn main() {}
