//! Fields that are cells are called like methods; the user's inherent methods take precedence.
use ms::prelude::*;

#[cell]
struct Shift {
    by: Parameter,
}

#[cell]
impl Shift {
    fn construct(&self, x: &Tensor) -> Tensor {
        ops::add(x, &self.by)
    }
}

#[cell]
struct Net {
    a: Shift,
    b: Box<dyn Layer>,
    names: Vec<String>,
    by: usize,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.b(&self.a(x))
    }

    fn by(&self) -> usize {
        self.by
    }

    fn names(&self) -> &[String] {
        &self.names
    }
}

fn shift(by: f32) -> Shift {
    Shift { by: Parameter::new(Tensor::scalar(by), "") }
}

#[test]
fn main() {
    let net = Net { a: shift(1.0), b: Box::new(shift(2.0)), names: vec!["x".into()], by: 3 };
    assert_eq!(net.call(&Tensor::scalar(1.0)).item::<f32>(), 4.0);
    assert_eq!((net.by(), net.names().len()), (3, 1));
}
