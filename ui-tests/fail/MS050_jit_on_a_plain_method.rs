// Only methods of cells, of `jit_class` types, and of types that derive `Tree` can be compiled.
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
