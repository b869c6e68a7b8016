use ms::prelude::*;

#[derive(Tree)]
struct State {
    value: Tensor,
}

fn main() {}
