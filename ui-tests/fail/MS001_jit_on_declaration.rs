use ms::prelude::*;

trait Model {
    #[jit]
    fn predict(&self, x: &Tensor) -> Tensor;
}

fn main() {}
