use ms::prelude::*;

struct View<'a>(&'a Tensor);

#[jit]
fn reference(x: &Tensor) -> &Tensor {
    x
}

#[jit]
fn inside<'a>(x: &'a Tensor) -> Option<View<'a>> {
    Some(View(x))
}

fn main() {}
