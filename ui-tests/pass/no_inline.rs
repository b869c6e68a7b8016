//! `#[no_inline]` on cells, on `construct`, on functions and on methods, with the other attributes in any order.
use ms::prelude::*;

#[no_inline]
fn scaled(v: &Tensor) -> Tensor {
    v * 3.0 + 2.0
}

#[jit]
#[no_inline]
fn halved(v: &Tensor, times: usize) -> Tensor {
    (0..times).fold(v.clone(), |v, _| v * 0.5)
}

#[no_inline]
#[jit(pure)]
fn largest<const N: usize>(all: &[Tensor; N]) -> Tensor {
    let mut best = all[0].clone();
    for it in &all[1..] {
        if it > &best {
            best = it.clone();
        }
    }
    best
}

#[lazy_inline]
#[no_inline]
#[cell]
struct Gain {
    gain: Parameter,
}

#[cell]
impl Gain {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * &self.gain
    }
}

#[cell]
#[no_inline]
struct Shift<T> {
    inner: T,
    by: f64,
}

#[cell]
impl Shift<Gain> {
    #[no_inline]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.inner(x) + self.by
    }

    #[no_inline]
    fn twice(&self, x: &Tensor) -> Tensor {
        self.call(&self.call(x))
    }
}

trait Scores {
    fn score(&self, x: &Tensor) -> Tensor;
}

impl Scores for Shift<Gain> {
    #[no_inline]
    fn score(&self, x: &Tensor) -> Tensor {
        self.twice(x) * 2.0
    }
}

#[jit]
fn all(net: &Shift<Gain>, x: &Tensor) -> Tensor {
    let y = halved(&scaled(x), 2) + net.score(x);
    largest(&[y.clone(), x.clone()])
}

#[test]
fn main() {
    let net = Shift { inner: Gain { gain: Parameter::new(Tensor::scalar(2.0), "") }, by: 1.0 };
    let x = Tensor::scalar(2.0);
    // Compiled, and eagerly.
    assert_eq!(all(&net, &x).item::<f32>(), 24.0);
    assert_eq!(ms::with_context(ms::Context { jit: false, ..ms::context() }, || all(&net, &x).item::<f32>()), 24.0);
    assert_eq!((scaled(&x).item::<f32>(), net.score(&x).item::<f32>()), (8.0, 22.0));
    assert_eq!(ms::grad(|x: &Tensor| all(&net, x))(&x).item::<f32>(), 8.75);
}
