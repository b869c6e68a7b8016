use ms::prelude::*;

#[jit]
struct Net {
    weight: Parameter,
}

fn main() {}
