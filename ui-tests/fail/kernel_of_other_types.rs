// The body of a kernel is typed: conditions are truth values, numbers are of one kind, beside `f64` and `i32`, and a method that `Float` does not have does not exist.
use ms::prelude::*;

ms::kernel! {
    fn condition(x: Float) -> Float {
        if x { x } else { 0.0 }
    }
}

ms::kernel! {
    fn arms(x: Float) -> Float {
        if x > 0.0 { x } else { x < 1.0 }
    }
}

ms::kernel! {
    fn method(x: Float) -> Float {
        x.gelu()
    }
}

ms::kernel! {
    fn number(x: Float, y: f32) -> Float {
        x * y
    }
}

ms::kernel! {
    fn kinds(x: Float, n: Int) -> Float {
        x * n
    }
}

ms::kernel! {
    fn bits(x: Float) -> Float {
        x & 1
    }
}

ms::kernel! {
    fn cast_of_the_host(x: Float, n: usize) -> Float {
        x * (n as Float)
    }
}

fn main() {}
