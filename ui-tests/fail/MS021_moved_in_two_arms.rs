// Differs from Rust: a value that is no `Clone` cannot be moved in both ways of a decision whose
// type is not seen from the text.
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
