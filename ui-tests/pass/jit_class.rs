//! `#[jit_class]`: fields, methods, made inside the graph, called.
use ms::prelude::*;

#[jit_class]
struct InnerNet {
    number: i64,
}

#[jit_class]
impl InnerNet {
    fn with(number: i64) -> Self {
        Self { number }
    }

    fn call(&self, x: &Tensor, y: &Tensor) -> Tensor {
        self.number * (x + y)
    }
}

#[jit]
fn f(outer: &InnerNet, x: &Tensor, y: &Tensor) -> Tensor {
    let net = InnerNet::with(2);
    net(x, &y) + outer(x, y)
}

fn main() {
    let (x, y) = (Tensor::scalar(2.0f32), Tensor::scalar(3.0f32));
    assert_eq!(f(&InnerNet::with(3), &x, &y).item::<f32>(), 25.0);
    assert_eq!(f(&InnerNet::with(0), &x, &y).item::<f32>(), 10.0);
}
