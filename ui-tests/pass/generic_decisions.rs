// Control flow on tensors in generic functions, methods of traits, and recursive functions.
use ms::prelude::*;

#[jit]
fn pick<T: Tree + Send + Sync + 'static>(x: &Tensor, one: &T, other: &T) -> T {
    if x > 0.0 { one.clone() } else { other.clone() }
}

#[jit]
fn last<T: Tree + Send + Sync + 'static, const N: usize>(limit: &Tensor, states: &[T; N]) -> T {
    let mut state = states[0].clone();
    let mut i = Tensor::scalar(0);
    for next in &states[1..] {
        i += 1;
        if &i > limit {
            break;
        }
        state = next.clone();
    }
    state
}

trait Rule {
    fn step(&self, x: &Tensor) -> Tensor;

    #[jit]
    fn settle(&self, x: &Tensor) -> Tensor
    where
        Self: Cell,
    {
        let mut x = x.clone();
        while x > 1.0 {
            x = self.step(&x);
        }
        x
    }
}

#[cell]
struct Shrink {
    by: f64,
}

impl Rule for Shrink {
    fn step(&self, x: &Tensor) -> Tensor {
        x / self.by
    }
}

#[jit]
fn nested(x: &Tensor, depth: usize) -> Tensor {
    if depth == 0 {
        return x.clone();
    }
    if x > 10.0 { nested(&(x - 10.0), depth - 1) } else { nested(&(x * 2.0), depth - 1) + 100.0 }
}

#[test]
fn main() {
    let scalar = |it: f32| Tensor::scalar(it);
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let pair = |a: f32, b: f32| (scalar(a), vec![scalar(b)]);
            let (a, b) = pick(&scalar(-1.0), &pair(1.0, 2.0), &pair(3.0, 4.0));
            assert_eq!((a.item::<f32>(), b[0].item::<f32>()), (3.0, 4.0));
            let states = [pair(1.0, 1.0), pair(2.0, 2.0), pair(3.0, 3.0)];
            assert_eq!([0, 1, 9].map(|it| last(&Tensor::scalar(it), &states).0.item::<f32>()), [1.0, 2.0, 3.0]);
            assert_eq!(Shrink { by: 4.0 }.settle(&scalar(20.0)).item::<f32>(), 0.3125);
            assert_eq!(nested(&scalar(8.0), 3).item::<f32>(), 212.0);
        });
    }
}
