use ms::prelude::*;

use std::rc::Rc;
use std::sync::Mutex;

#[jit]
fn f(a: &Rc<Tensor>, b: &Mutex<Tensor>, c: fn(&Tensor) -> Tensor) -> Tensor {
    c(a)
}

fn main() {}
