use ms::prelude::*;

#[jit_class]
#[cell]
struct Net {
    weight: Parameter,
}

#[cell]
#[jit_class]
struct Other {
    weight: Parameter,
}

fn main() {}
