use ms::prelude::*;
use std::rc::Rc;

#[derive(Clone, Static)]
struct Settings {
    rate: f64,
    shared: Rc<u8>,
}

fn main() {}
