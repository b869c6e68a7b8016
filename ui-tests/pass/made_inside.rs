//! A model that a compiled function creates is created once, and belongs to the function.
use ms::prelude::*;

#[jit]
fn count(x: &Tensor) -> Tensor {
    let calls = Parameter::new(Tensor::scalar(0.0f32), "calls");
    calls.set(&(&calls + 1.0));
    let layer = nn::Dense::new(2, 1);
    layer.call(x) * 0.0 + &calls
}

#[test]
fn main() {
    let x = Tensor::ones([1, 2]);
    let call = |jit| ms::with_context(Context { jit, ..ms::context() }, || count(&x).to_vec::<f32>()[0]);
    assert_eq!([true, true, false, true].map(call), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(count(&Tensor::ones([1, 2])).to_vec::<f32>(), [5.0]);
}
