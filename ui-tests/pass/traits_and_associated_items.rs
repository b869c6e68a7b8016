//! Compiled methods of traits, associated constants and types, `impl Trait` arguments.
use ms::prelude::*;

trait Model {
    const TIMES: usize;
    type Output;

    fn run(&self, x: &Tensor) -> Self::Output;
}

#[derive(Clone, Tree)]
struct Repeat(Tensor);

impl Model for Repeat {
    const TIMES: usize = 3;
    type Output = (Tensor, usize);

    #[jit]
    fn run(&self, x: &Tensor) -> Self::Output {
        let sum = (0..Self::TIMES).fold(x.clone(), |x, _| x + &self.0);
        (sum, Self::TIMES)
    }
}

#[jit]
fn generic<M: Model<Output = (Tensor, usize)> + ms::Arg>(model: &M, x: &Tensor) -> Tensor {
    model.run(x).0 * M::TIMES
}

#[test]
fn main() {
    let model = Repeat(Tensor::scalar(2.0f32));
    for _ in 0..2 {
        assert_eq!(model.run(&Tensor::scalar(1.0f32)).0.item::<f32>(), 7.0);
        assert_eq!(generic(&model, &Tensor::scalar(1.0f32)).item::<f32>(), 21.0);
    }
}
