//! A cell of several arguments is called by `call`, whose signature is that of `construct`.
use ms::prelude::*;

#[cell]
struct Attention {
    scale: Parameter,
}

#[cell]
impl Attention {
    fn construct(&self, q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> Tensor {
        let weights = q * k * &self.scale;
        if causal { weights * v } else { weights + v }
    }
}

#[cell]
struct Nothing;

#[cell]
impl Nothing {
    fn construct(&self) -> Tensor {
        Tensor::scalar(1.0f32)
    }
}

#[cell]
struct Block {
    attn: Attention,
    nothing: Nothing,
}

#[cell]
impl Block {
    #[jit]
    fn construct(&self, x: &Tensor, causal: bool) -> (Tensor, Tensor) {
        (self.attn.call(x, x, x, causal), self.nothing.call())
    }
}

fn main() {
    let attn = Attention { scale: Parameter::new(Tensor::scalar(0.5f32), "") };
    let block = Block { attn, nothing: Nothing };
    for _ in 0..2 {
        assert_eq!(block.call(&Tensor::scalar(2.0), true).0.item::<f32>(), 4.0);
        assert_eq!(block.call(&Tensor::scalar(2.0), false).0.item::<f32>(), 4.0);
        assert_eq!(block.call(&Tensor::scalar(4.0), false).0.item::<f32>(), 12.0);
    }
}
