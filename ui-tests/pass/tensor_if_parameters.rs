//! Parameters that are written under a condition on a tensor.
use ms::prelude::*;

#[cell]
struct Clip {
    clipped: Parameter,
}

#[cell]
impl Clip {
    #[jit]
    fn construct(&self, x: &Tensor, limit: &Tensor) -> Tensor {
        if x > limit {
            self.clipped.set(&(&self.clipped + 1.0));
            return limit.clone();
        }
        x.clone()
    }
}

#[test]
fn main() {
    let number = |it: f32| Tensor::scalar(it);
    for jit in [true, false] {
        ms::with_context(Context { jit, ..ms::context() }, || {
            let clip = Clip { clipped: Parameter::new(number(0.0), "") };
            let got: Vec<f32> = [1.0, 5.0, 2.0, 9.0].map(|it| clip.call(&number(it), &number(3.0)).item()).to_vec();
            assert_eq!(got, [1.0, 3.0, 2.0, 3.0]);
            assert_eq!(clip.clipped.value().item::<f32>(), 2.0);
        });
    }
}
