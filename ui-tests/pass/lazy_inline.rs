//! A marked cell shares its sub-graph among equal calls; one with another field has its own.
use ms::prelude::*;

#[cell]
struct B {
    value: i64,
}

#[cell]
impl B {
    #[lazy_inline]
    fn new(value: i64) -> Self {
        Self { value }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        x * self.value
    }

    fn b(&self, n: i64) -> i64 {
        self.value + n
    }

    fn c(&self, n: i64) -> i64 {
        self.value * n
    }
}

#[lazy_inline]
#[cell]
struct Net {
    blocks: Vec<B>,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.blocks.iter().fold(x.clone(), |x, block| block.call(&x))
    }
}

#[jit]
fn methods(x: &Tensor) -> Tensor {
    x * B::new(1).b(5) + B::new(1).c(5)
}

#[test]
fn main() {
    let x = Tensor::scalar(1.0f32);
    let mut net = Net { blocks: (0..3).map(|_| B::new(2)).collect() };
    assert_eq!(net.call(&x).item::<f32>(), 8.0);
    net.blocks[1].value = 5;
    assert_eq!(net.call(&x).item::<f32>(), 20.0);
    assert_eq!(methods(&x).item::<f32>(), 11.0);
}
