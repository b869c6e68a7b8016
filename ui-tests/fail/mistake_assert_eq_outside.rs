// `assert_eq!` of tensors outside annotated code.
use ms::prelude::*;

fn main() {
    let (x, y) = (Tensor::ones([2]), Tensor::ones([2]));
    assert_eq!(x, y);
}
