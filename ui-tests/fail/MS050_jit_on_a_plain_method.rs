// Methods are compiled of cells, of  types, and of types that derive `Tree`.
use ms::prelude::*;

struct Plain {
    size: usize,
}

impl Plain {
    #[jit]
    fn run(&self, x: &Tensor) -> Tensor {
        x * self.size
    }
}

fn main() {}
