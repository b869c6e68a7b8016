use ms::prelude::*;
use std::rc::Rc;

#[derive(Clone, Tree)]
struct State {
    value: Tensor,
}

impl State {
    #[jit]
    fn run(self: Rc<Self>) -> Tensor {
        self.value.clone()
    }
}

fn main() {}
