use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> (Tensor, Vec<impl Fn(&Tensor) -> Tensor>) {
    (x.clone(), vec![|x: &Tensor| x.clone()])
}

fn main() {}
