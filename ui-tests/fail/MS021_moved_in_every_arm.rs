// A value that is not `Clone` cannot be moved in several arms: of a `match`, next to a jump, or as a
// field.
use ms::prelude::*;

struct Token(usize);

struct Pair {
    token: Token,
}

fn consume(it: Token) -> f64 {
    it.0 as f64
}

#[jit]
fn f(x: &Tensor, n: usize) -> Tensor {
    let token = Token(n);
    match x {
        0 => x * consume(token),
        1 => x + consume(token),
        _ => x - consume(token),
    }
}

#[jit]
fn g(x: &Tensor, n: usize) -> Tensor {
    let pair = Pair { token: Token(n) };
    if x > 1.0 {
        return x * consume(pair.token);
    }
    x + consume(pair.token)
}

fn main() {}
