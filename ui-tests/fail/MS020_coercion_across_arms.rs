// Differs from Rust: the arms of a branch on a tensor have one type, without coercions.
use ms::prelude::*;

#[jit]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    let function: Box<dyn Fn(&Tensor) -> Tensor> = if x < y { Box::new(|x| x + 1.0) } else { Box::new(|x| x - 1.0) };
    function(x)
}

fn main() {}
