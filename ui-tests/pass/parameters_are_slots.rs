//! `==` of two parameters tests whether they are the same slot; `<` compares their values.
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

/// The comparison with a number is a tensor, whatever is made of it.
#[jit]
fn is_number(a: &Parameter) -> Tensor {
    if !(a != 1.0) && 1 == *a { a + 10.0 } else { a.value() }
}

#[test]
fn main() {
    let slot = |value: f32| Parameter::new(Tensor::scalar(value), "");
    let (a, b) = (slot(1.0), slot(1.0));
    assert!(same(&a, &a.clone()) && !same(&a, &b));
    assert!(!less(&a, &b).item::<bool>() && less(&a, &slot(2.0)).item::<bool>());
    assert_eq!((is_number(&a).item::<f32>(), is_number(&slot(2.0)).item::<f32>()), (11.0, 2.0));
    assert!(equal_to(&a, &b.value()).item::<bool>());
}
