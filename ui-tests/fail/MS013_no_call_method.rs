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
}

#[jit]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    let net = InnerNet::with(2);
    net(x, y)
}

fn main() {}
