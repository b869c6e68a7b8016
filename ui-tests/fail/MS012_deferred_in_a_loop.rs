// A variable without an initialiser cannot be initialised inside a loop on a tensor.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> Tensor {
    let last;
    let mut x = x.clone();
    loop {
        x += 1.0;
        if x > 3.0 {
            last = x.clone();
            break;
        }
    }
    last
}

#[jit]
fn g(x: &Tensor) -> Tensor {
    let (one, other);
    match x {
        0 => {
            one = 1.0;
            other = 2.0;
        }
        _ => {
            one = 2.0;
            other = 1.0;
        }
    }
    x * one + other
}

fn main() {}
