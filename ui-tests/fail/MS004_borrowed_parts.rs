use ms::prelude::*;

#[jit]
fn pair(x: &Tensor) -> (Tensor, &Tensor) {
    (x.clone(), x)
}

#[jit]
fn list<'a>(x: &'a [Tensor]) -> Vec<std::slice::Iter<'a, Tensor>> {
    vec![x.iter()]
}

fn main() {}
