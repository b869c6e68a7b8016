// Tensors compare with tensors, parameters and numbers, host values with values of the same kind.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, name: &str, flags: &[bool]) -> Tensor {
    let a = x == name;
    let b = flags < x;
    let c = Some(1) == 1;
    x.clone()
}

fn main() {}
