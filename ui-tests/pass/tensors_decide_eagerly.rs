//! In annotated code that runs eagerly, the value of a tensor of one bool is the condition.
use ms::prelude::*;

#[cell]
struct Clip {
    limit: f32,
}

#[cell]
impl Clip {
    fn construct(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        while x > self.limit && x > 1.0 {
            x = x - 1.0;
        }
        if x < 0.0 { Tensor::zeros_like(&x) } else { x }
    }
}

#[test]
fn main() {
    let clip = Clip { limit: 2.0 };
    assert_eq!(clip.call(&Tensor::scalar(5.5f32)).item::<f32>(), 1.5);
    assert_eq!(clip.call(&Tensor::scalar(-5.0f32)).item::<f32>(), 0.0);
}
