use ms::prelude::*;
use std::collections::HashSet;

#[cell]
struct Net {
    weight: Parameter,
    table: HashSet<usize>,
}

fn main() {}
