// The arms of an `if` have one type: rustc reports the end of the arm that differs.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> Tensor {
    let y = if x > 0.0 { x + 1.0 } else { 3.0 };
    let z = if x > 1.0 {
        y.clone()
    } else if x > 0.5 {
        &y
    } else {
        return y;
    };
    z + y
}

#[jit]
fn undecided(x: &Tensor) -> Tensor {
    if x.item() > 0.0 { x + 1.0 } else { x.clone() }
}

fn main() {}
