use ms::prelude::*;

#[cell]
#[derive(Clone)]
struct Net {
    weight: Parameter,
}

#[jit]
fn make(x: &Tensor) -> Net {
    Net { weight: Parameter::new(Tensor::scalar(1.0), "") }
}

#[jit]
fn pair(x: &Tensor) -> (Tensor, std::thread::ThreadId) {
    (x.clone(), std::thread::current().id())
}

fn main() {}
