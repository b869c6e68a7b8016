//! Equal calls of cells are one sub-graph, and what tells calls apart.

use ms::prelude::*;

#[jit]
fn difference(x: &Tensor, y: &Tensor) -> Tensor {
    x - y
}

#[test]
fn the_same_tensor_twice_is_another_signature() {
    let (a, b) = (&Tensor::scalar(5.0), &Tensor::scalar(3.0));
    assert_eq!(difference(a, a).item::<f32>(), 0.0);
    assert_eq!(difference(a, b).item::<f32>(), 2.0);
    assert_eq!(difference(b, b).item::<f32>(), 0.0);
    assert_eq!(difference(b, a).item::<f32>(), -2.0);
}
