// `construct` takes `&mut self`.
use ms::prelude::*;

#[cell]
struct Net {
    calls: usize,
}

#[cell]
impl Net {
    fn construct(&mut self, x: &Tensor) -> Tensor {
        self.calls += 1;
        x.relu()
    }
}

fn main() {
    Net { calls: 0 }.call(&Tensor::ones([2]));
}
