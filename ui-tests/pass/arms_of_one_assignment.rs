//! Arms and bodies of one assignment without a semicolon cause no warning of rustc.
#![deny(warnings)]
use ms::prelude::*;

#[jit]
fn steps(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    if x > 0.0 { x = &x + 1.0 } else { x = &x * 2.0 }
    if x > 100.0 { x = &x - 100.0 }
    while x < 10.0 { x = &x + 3.0 }
    match x { 10.0 => { x = &x + 1.0 } 11.0 | 12.0 => x = &x + 2.0, _ => { x = &x * 1.5 } }
    for i in ms::range(0, 3) { x = &x + i }
    if x == 0.0 { &x + 1.0 } else { x.clone() }
}

#[test]
fn main() {
    for (given, want) in [(-10.0, 14.0), (6.0, 14.0), (7.0, 16.0), (9.0, 14.0), (111.0, 17.0)] {
        assert_eq!(steps(&tensor![given]).to_vec::<f32>(), [want], "{given}");
    }
}
