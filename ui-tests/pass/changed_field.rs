//! The next call notices a changed field.
use ms::prelude::*;

#[cell]
struct Net {
    value: i64,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.value + x
    }
}

#[test]
fn main() {
    let mut net = Net { value: 5 };
    let x = tensor![1.0, 2.0, 3.0];
    assert_eq!(net.call(&x).to_vec::<f32>(), [6.0, 7.0, 8.0]);
    net.value = 1;
    assert_eq!(net.call(&x).to_vec::<f32>(), [2.0, 3.0, 4.0]);
    net.value = 5;
    assert_eq!(net.call(&x).to_vec::<f32>(), [6.0, 7.0, 8.0]);
}
