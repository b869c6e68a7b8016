//! `ms::closure::jit!` compiles a closure that is written as annotated code.
use ms::prelude::*;

fn main() {
    let f = ms::closure::jit!(|x: &Tensor, n: &usize| if *n > 2 { x < 2.0 } else { x > 2.0 });
    let x = Tensor::from_slice([3], &[1.0f32, 2.0, 3.0]);
    assert_eq!(f(&x, &3).to_vec::<bool>(), [true, false, false]);
    assert_eq!(f(&x, &1).to_vec::<bool>(), [false, false, true]);
}
