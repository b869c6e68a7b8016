use ms::prelude::*;

#[derive(Clone, Copy, Tree)]
union Bits {
    float: f32,
    bits: u32,
}

#[derive(Clone, Copy, Static)]
union Other {
    float: f32,
    bits: u32,
}

fn main() {}
