// State that a loop on a tensor changes is a structure of tensors: fields, and targets of `&mut`.
use ms::prelude::*;
use std::collections::HashSet;

struct State {
    seen: HashSet<usize>,
    steps: usize,
}

#[jit]
fn f(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    let mut state = State { seen: HashSet::new(), steps: 0 };
    while x > 1.0 {
        x = x / 2.0;
        state.seen.insert(1);
    }
    let state = &mut state;
    for i in ms::range(0, 3) {
        x += i;
        state.steps += 1;
        state.seen.clear();
    }
    x
}

fn main() {}
