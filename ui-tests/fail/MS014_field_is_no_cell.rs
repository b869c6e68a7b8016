use ms::prelude::*;

#[cell]
struct Net {
    names: Vec<String>,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.names(x)
    }
}

fn main() {}
