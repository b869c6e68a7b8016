// A tensor can only be matched against numbers, ranges and bools, by a `match` with an irrefutable last
// arm.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, slot: &Parameter) -> Tensor {
    if let 0 = x {
        return -x;
    }
    let 1 = slot else { return x.clone() };
    match x {
        2 => x + 1,
        'a' => x + 2,
        _ => x + 3,
    }
}

fn main() {}
