// A field that is a list of cells is called.
use ms::prelude::*;

#[cell]
struct Net {
    blocks: nn::CellList<nn::Dense>,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.blocks(x)
    }
}

fn main() {
    Net { blocks: nn::CellList::from(vec![nn::Dense::new(2, 2)]) }.call(&Tensor::ones([1, 2]));
}
