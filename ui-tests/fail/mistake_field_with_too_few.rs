// A field is called with fewer arguments than its cell takes.
use ms::prelude::*;

#[cell]
struct Net {
    attn: nn::MultiheadAttention,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.attn(x)
    }
}

fn main() {
    Net { attn: nn::MultiheadAttention::new(4, 2) }.call(&Tensor::ones([1, 2, 4]));
}
