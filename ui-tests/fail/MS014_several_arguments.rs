use ms::prelude::*;

#[cell]
struct Sum;

#[cell]
impl Sum {
    fn construct(&self, x: &Tensor, y: &Tensor) -> Tensor {
        ops::add(x, y)
    }
}

#[cell]
struct Net {
    sum: Sum,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.sum(x, x)
    }
}

fn main() {}
