//! Cells with type parameters, bounds and constants.
use ms::prelude::*;
use ms::Apply;

#[cell]
struct Residual<L, const TIMES: usize> {
    layer: L,
}

#[cell]
impl<L, const TIMES: usize> Residual<L, TIMES>
where
    L: Cell + for<'a> Apply<'a, Argument = &'a Tensor, Output = Tensor>,
{
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for _ in 0..TIMES {
            x = &x + self.layer(&x);
        }
        x
    }
}

#[cell]
struct Either<A, B> {
    a: A,
    b: Option<B>,
}

#[cell]
impl<A: Layer + Cell, B: Layer + Cell> Either<A, B> {
    fn construct(&self, x: &Tensor) -> Tensor {
        match &self.b {
            Some(b) => b.forward(x),
            None => self.a.forward(x),
        }
    }
}

#[test]
fn main() {
    let x = tensor![-1.0, 2.0];
    assert_eq!(Residual::<_, 2> { layer: nn::ReLU }.call(&x).to_vec::<f32>(), [-1.0, 8.0]);
    assert_eq!(Residual::<_, 1> { layer: Residual::<_, 1> { layer: nn::ReLU } }.call(&x).to_vec::<f32>(), [-2.0, 6.0]);
    let either = |b| Either { a: nn::ReLU, b }.call(&x).to_vec::<f32>();
    assert_eq!(either(None::<nn::Sequential>), [0.0, 2.0]);
    assert_eq!(either(Some(nn::sequential![])), [-1.0, 2.0]);
}
