use ms::prelude::*;

#[jit(donate(x))]
fn borrowed(x: &Tensor) -> Tensor {
    x + 1.0
}

#[jit(donate(x))]
fn written(x: &mut Tensor) {
    *x = &*x + 1.0;
}

#[derive(Clone, Tree)]
struct State {
    x: Tensor,
}

impl State {
    #[jit(donate(self))]
    fn receiver(&self) -> Tensor {
        &self.x * 2.0
    }
}

#[jit(donate(rate))]
fn scalar(x: &Tensor, #[dynamic] rate: f32) -> Tensor {
    x * rate
}

fn main() {}
