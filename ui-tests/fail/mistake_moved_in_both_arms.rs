// A value that cannot be cloned is moved in both arms of a branch on a tensor.
use ms::prelude::*;

struct Log(Vec<f32>);

#[jit]
fn f(x: &Tensor) -> Tensor {
    let log = Log(Vec::new());
    if x > 1.0 {
        drop(log);
    } else {
        drop(log);
    }
    x * 2.0
}

fn main() {
    f(&Tensor::scalar(2.0));
}
