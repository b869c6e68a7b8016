//! The option `crate` names the library if it is renamed.
extern crate ms as framework;

mod inner {
    pub use framework::{__rt, Tensor};
}

use framework::prelude::jit;
use inner::Tensor;

#[jit(crate = crate::inner)]
fn f(x: &Tensor, n: usize) -> Tensor {
    if x.shape().len() > n { x.clone() } else { x + 1.0 }
}

fn main() {
    assert_eq!(f(&Tensor::scalar(1.0f32), 0).item::<f32>(), 2.0);
}
