//! One cell in two places has its parameters once.
use ms::prelude::*;
use std::sync::Arc;

#[cell]
struct Scale {
    by: Parameter,
}

#[cell]
impl Scale {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * &self.by
    }
}

#[cell]
struct Net {
    first: Arc<Scale>,
    second: Arc<Scale>,
    tied: Parameter,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.second(&self.first(x)) + &self.tied
    }
}

#[test]
fn main() {
    let scale = Arc::new(Scale { by: Parameter::new(Tensor::scalar(3.0f32), "") });
    let net = Net { first: scale.clone(), second: scale.clone(), tied: scale.by.clone() };
    assert_eq!(net.call(&Tensor::scalar(1.0f32)).item::<f32>(), 12.0);
    assert_eq!(net.parameters().len(), 1);
    let gradients = ms::grad(|net: &Net, x: &Tensor| net.call(x))(&net, &Tensor::scalar(1.0f32));
    assert_eq!(gradients.iter().next().expect("one parameter").1.item::<f32>(), 7.0);
}
