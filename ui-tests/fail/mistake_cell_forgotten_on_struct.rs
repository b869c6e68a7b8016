// `#[cell]` is forgotten on the struct.
use ms::prelude::*;

struct Net {
    fc: nn::Dense,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc(x).relu()
    }
}

fn main() {
    let net = Net { fc: nn::Dense::new(2, 2) };
    net.call(&Tensor::ones([1, 2]));
}
