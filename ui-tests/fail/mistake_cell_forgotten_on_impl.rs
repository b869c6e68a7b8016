// `#[cell]` is forgotten on the impl.
use ms::prelude::*;

#[cell]
struct Net {
    fc: nn::Dense,
}

impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc(x).relu()
    }
}

fn main() {
    let net = Net { fc: nn::Dense::new(2, 2) };
    net.call(&Tensor::ones([1, 2]));
}
