//! `==` of two parameters asks whether they are one slot; `<` compares their values.
use ms::prelude::*;

#[jit]
fn same(a: &Parameter, b: &Parameter) -> bool {
    a == b
}

#[jit]
fn less(a: &Parameter, b: &Parameter) -> Tensor {
    a < b
}

#[jit]
fn equal_to(a: &Parameter, x: &Tensor) -> Tensor {
    a == x
}

fn main() {
    let slot = |value: f32| Parameter::new(Tensor::scalar(value), "");
    let (a, b) = (slot(1.0), slot(1.0));
    assert!(same(&a, &a.clone()) && !same(&a, &b));
    assert!(!less(&a, &b).item::<bool>() && less(&a, &slot(2.0)).item::<bool>());
    assert!(equal_to(&a, &b.value()).item::<bool>());
}
