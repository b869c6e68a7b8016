//! A float is part of the key, unless `#[dynamic]` makes it an input.
use ms::prelude::*;

#[jit]
fn decay(x: &Tensor, #[dynamic] rate: f32, steps: usize) -> Tensor {
    (0..steps).fold(x.clone(), |x, _| x * &rate)
}

#[test]
fn main() {
    let x = Tensor::scalar(8.0f32);
    for rate in [0.5f32, 0.25, 2.0] {
        assert_eq!(decay(&x, rate, 2).item::<f32>(), 8.0 * rate * rate);
    }
}
