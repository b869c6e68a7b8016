use ms::prelude::*;
use std::collections::HashMap;

#[cell]
struct Net {
    weight: Parameter,
    table: HashMap<String, usize>,
}

fn main() {}
