// A field of a cell is a struct without a derive.
use ms::prelude::*;

struct Options {
    rate: f64,
}

#[cell]
struct Net {
    options: Options,
}

fn main() {
    Net { options: Options { rate: 0.1 } };
}
