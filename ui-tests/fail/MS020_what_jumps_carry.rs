// The values of `break` and `return` out of branches on tensors are structures of tensors.
use ms::prelude::*;
use std::thread::ThreadId;

#[jit]
fn f(x: &Tensor) -> Tensor {
    let found = 'search: {
        if x > 1.0 {
            break 'search std::thread::current().id();
        }
        std::thread::current().id()
    };
    let mut x = x.clone();
    let ended = loop {
        x += 1.0;
        if x > 3.0 {
            break std::thread::current().id();
        }
    };
    let early = |x: &Tensor| -> ThreadId {
        if x > 1.0 {
            return std::thread::current().id();
        }
        std::thread::current().id()
    };
    x
}

fn main() {}
