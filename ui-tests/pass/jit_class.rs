//! `#[jit_class]`: fields, methods, nested, made inside the graph, called.
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

    fn new(val: i64) -> Self {
        Self { number: val + 3 }
    }

    fn act(&self, x: &Tensor, y: &Tensor) -> Tensor {
        self.number * (x + y)
    }

    fn call(&self, x: &Tensor, y: &Tensor) -> Tensor {
        self.number * (x + y)
    }

    #[jit]
    fn compiled(&self, x: &Tensor) -> Tensor {
        self.act(x, x)
    }
}

#[jit_class]
struct Numbers {
    values: Tensor,
}

#[jit_class]
struct Outer {
    numbers: Numbers,
}

#[cell]
struct Net {
    outer: Outer,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self) -> Tensor {
        self.outer.numbers.values.clone()
    }
}

#[jit]
fn members(n: &InnerNet, x: &Tensor, y: &Tensor) -> Tensor {
    n.number + InnerNet::act(n, x, y)
}

#[jit]
fn made_inside() -> i64 {
    InnerNet::new(2).number
}

#[jit]
fn called(x: &Tensor, y: &Tensor) -> Tensor {
    let net = InnerNet::with(2);
    net(x, y)
}

#[jit]
fn both(outer: &InnerNet, x: &Tensor, y: &Tensor) -> Tensor {
    let net = InnerNet::with(2);
    net(x, &y) + outer(x, y)
}

#[test]
fn main() {
    let (x, y) = (Tensor::scalar(2.0f32), Tensor::scalar(3.0f32));
    for _ in 0..2 {
        let values = tensor![1.0, 2.0, 3.0];
        assert_eq!(Net { outer: Outer { numbers: Numbers { values } } }.call().to_vec::<f32>(), [1.0, 2.0, 3.0]);
        assert_eq!(members(&InnerNet::with(2), &x, &y).item::<f32>(), 12.0);
        assert_eq!(made_inside(), 5);
        assert_eq!(called(&x, &y).item::<f32>(), 10.0);
        assert_eq!(both(&InnerNet::with(3), &x, &y).item::<f32>(), 25.0);
        assert_eq!(InnerNet::with(3).compiled(&x).item::<f32>(), 12.0);
    }
}
