use ms::prelude::*;

#[jit]
enum Choice {
    A,
}

#[jit]
trait Model {
    fn run(&self, x: &Tensor) -> Tensor;
}

#[jit]
mod inner {}

#[jit]
const SIZE: usize = 3;

fn main() {}
