use ms::prelude::*;

#[jit]
fn f(x: &Tensor) -> std::result::Result<Tensor, String> {
    Err("no".to_owned())
}

fn main() {}
