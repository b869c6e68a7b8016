use ms::prelude::*;

static VALUE: i64 = 5;
static mut CALLS: usize = 0;

mod settings {
    pub static mut LIMITS: [f64; 2] = [0.0, 1.0];
}

#[jit]
fn f(x: &Tensor) -> Tensor {
    let value = 1;
    VALUE = value;
    unsafe {
        CALLS += 1;
        settings::LIMITS[0] = 2.0;
    }
    x.clone()
}

fn main() {}
