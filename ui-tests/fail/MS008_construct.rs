use ms::prelude::*;

#[cell]
struct A;

#[cell]
impl A {
    fn construct(&mut self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

#[cell]
struct B;

#[cell]
impl B {
    fn construct(x: &Tensor) -> Tensor {
        x.clone()
    }
}

#[cell]
struct C;

#[cell]
impl C {
    fn construct(&self, x: &Tensor) -> Tensor {
        x.clone()
    }

    fn call(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
