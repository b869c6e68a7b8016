//! Type parameters, `impl Trait` arguments, constants, and methods of traits.
use ms::prelude::*;

trait Model {
    const SCALE: f64;

    fn predict(&self, x: &Tensor) -> Tensor;
}

#[cell]
struct Double;

impl Model for Double {
    const SCALE: f64 = 2.0;

    #[jit]
    fn predict(&self, x: &Tensor) -> Tensor {
        x * Self::SCALE
    }
}

#[jit]
fn twice<M: Model + Cell, const N: usize>(model: &M, xs: &[Tensor; N]) -> Vec<Tensor> {
    xs.iter().map(|x| model.predict(&model.predict(x))).collect()
}

#[jit]
fn named(x: &Tensor, how: &(impl Model + Cell)) -> Tensor {
    how.predict(x)
}

#[test]
fn main() {
    let xs = [1.0f32, 2.0, 3.0].map(Tensor::scalar);
    let values: Vec<f32> = twice(&Double, &xs).iter().map(Tensor::item).collect();
    assert_eq!(values, [4.0, 8.0, 12.0]);
    assert_eq!(named(&xs[2], &Double).item::<f32>(), 6.0);
}
