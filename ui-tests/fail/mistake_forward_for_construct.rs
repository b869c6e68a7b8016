// `forward` is written for `construct`.
use ms::prelude::*;

#[cell]
struct Net {
    fc: nn::Dense,
}

#[cell]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.fc(x).relu()
    }
}

fn main() {
    let net = Net { fc: nn::Dense::new(2, 2) };
    net.call(&Tensor::ones([1, 2]));
}
