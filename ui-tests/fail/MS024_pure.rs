// The errors of `#[jit(pure)]` that the text shows, all at once.
use ms::prelude::*;

static mut CALLS: usize = 0;

#[jit(pure)]
fn process(x: &Tensor) -> Tensor {
    let layers = std::env::var("LAYERS").is_ok();
    let weight = Parameter::new(Tensor::scalar(1.0), "weight");
    let calls = unsafe { CALLS };
    if layers { x * weight } else { x + calls as f64 }
}

fn main() {}
