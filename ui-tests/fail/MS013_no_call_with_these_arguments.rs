use ms::prelude::*;

#[jit_class]
struct InnerNet {
    number: i64,
}

#[jit_class]
impl InnerNet {
    fn call(&self, x: &Tensor, y: &Tensor) -> Tensor {
        self.number * (x + y)
    }
}

#[jit]
fn one_argument(net: &InnerNet, x: &Tensor) -> Tensor {
    net(x)
}

#[jit]
fn another_type(net: &InnerNet, x: &Tensor) -> Tensor {
    net(x, 2.0)
}

fn main() {}
