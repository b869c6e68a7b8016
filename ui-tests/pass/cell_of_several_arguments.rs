//! A cell of several arguments is called by `call`, whose signature is that of `construct`; as a field by its name.
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

#[jit_class]
struct Scale {
    by: f64,
}

#[jit_class]
impl Scale {
    fn call(&self, x: &Tensor) -> Tensor {
        x * self.by
    }
}

#[cell]
struct Named {
    attn: Attention,
    boxed: Box<Attention>,
    nothing: Nothing,
    scale: Scale,
}

#[cell]
impl Named {
    fn construct(&self, x: &Tensor) -> Tensor {
        let one = self.nothing();
        // What dereferences to the type of an argument is accepted, as in any call.
        let x = Box::new(self.scale(x));
        self.attn(&x, &one, &x, self.is_causal(1, 2)) + self.boxed(&x, &x, &x, false)
    }
}

impl Named {
    fn is_causal(&self, a: usize, b: usize) -> bool {
        a < b
    }
}

#[jit_class]
struct Pair {
    attn: Attention,
}

#[jit_class]
impl Pair {
    fn call(&self, x: &Tensor) -> Tensor {
        self.attn(x, x, x, true)
    }
}

#[test]
fn main() {
    let attn = || Attention { scale: Parameter::new(Tensor::scalar(0.5f32), "") };
    let named = Named { attn: attn(), boxed: Box::new(attn()), nothing: Nothing, scale: Scale { by: 2.0 } };
    let pair = Pair { attn: attn() };
    for mode in [Mode::PyNative, Mode::Graph] {
        ms::with_context(Context { mode, ..ms::context() }, || {
            // 2 * 1 * 0.5 * 2 + (2 * 2 * 0.5 + 2)
            assert_eq!(named.call(&Tensor::scalar(1.0)).item::<f32>(), 6.0);
            assert_eq!(pair.call(&Tensor::scalar(2.0)).item::<f32>(), 4.0);
            assert_eq!(named.attn(&Tensor::scalar(1.0), &Tensor::scalar(1.0), &Tensor::scalar(2.0), true).item::<f32>(), 1.0);
        });
    }
    let attn = attn();
    let block = Block { attn, nothing: Nothing };
    for _ in 0..2 {
        assert_eq!(block.call(&Tensor::scalar(2.0), true).0.item::<f32>(), 4.0);
        assert_eq!(block.call(&Tensor::scalar(2.0), false).0.item::<f32>(), 4.0);
        assert_eq!(block.call(&Tensor::scalar(4.0), false).0.item::<f32>(), 12.0);
    }
}
