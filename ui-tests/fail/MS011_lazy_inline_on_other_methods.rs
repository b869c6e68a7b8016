use ms::prelude::*;

#[lazy_inline]
#[derive(Clone, Tree)]
struct State {
    value: Tensor,
}

#[lazy_inline]
enum Choice {
    A,
}

fn main() {}
