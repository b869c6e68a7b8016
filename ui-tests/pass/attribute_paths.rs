//! The attributes by their full paths, and the closure macro together with the attribute.
use ms::closure::jit;
use ms::{Tensor, ops};

#[ms::cell]
struct Scale {
    by: ms::Parameter,
}

#[ms::cell]
impl Scale {
    #[ms::jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        x * &self.by
    }

    #[ms::jit(pure)]
    fn twice(&self, x: &Tensor) -> Tensor {
        self.call(&self.call(x))
    }
}

#[ms::jit]
fn add(x: &Tensor, y: &Tensor) -> Tensor {
    ops::add(x, y)
}

#[test]
fn main() {
    let (x, y) = (Tensor::scalar(2.0f32), Tensor::scalar(3.0f32));
    let scale = Scale { by: ms::Parameter::new(y.clone(), "") };
    assert_eq!(scale.call(&x).item::<f32>(), 6.0);
    assert_eq!(scale.twice(&x).item::<f32>(), 18.0);
    assert_eq!(add(&x, &y).item::<f32>(), 5.0);
    assert_eq!(ms::jit(add)(&x, &y).item::<f32>(), 5.0);
    assert_eq!(jit!(|x: &Tensor| if x.dtype() == ms::DType::F32 { x + 1.0 } else { x - 1.0 })(&x).item::<f32>(), 3.0);
}
