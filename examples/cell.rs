//! Cells: a network of parameters and other cells, run eagerly and compiled.

use ms::prelude::*;

#[cell]
struct Residual {
    inner: nn::Dense,
    drop: nn::Dropout,
    scale: Parameter,
}

#[cell]
impl Residual {
    fn new(width: usize) -> Self {
        let scale = Parameter::new(Tensor::full([width], 0.5), "scale");
        Self { inner: nn::Dense::new(width, width), drop: nn::Dropout::new(0.5), scale }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        x + self.drop(&self.inner(x).relu()) * &self.scale
    }
}

fn main() -> Result<()> {
    let net = Residual::new(4);
    for (name, parameter) in net.named_parameters()? {
        println!("{name:<16}{:?}", parameter.value().shape());
    }
    let x = Tensor::ones([2, 4]);
    println!("training, with elements dropped:\n{}", net.call(&x));

    net.set_train(false);
    let eager = net.call(&x);
    let graph = ms::with_context(Context { mode: Mode::Graph, ..ms::context() }, || net.call(&x));
    println!("evaluating:\n{eager}");
    let difference: f32 = (eager - graph).abs().max(()).item();
    assert!(difference < 1e-6);
    Ok(())
}
